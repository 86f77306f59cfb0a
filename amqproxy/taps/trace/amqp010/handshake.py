"""Handshake of a connection: the peers' properties, the user, and the limits agreed. Section 9.1, connection."""

from __future__ import annotations

from amqproxy.amqp010.controls import (
    ConnectionOpen,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from amqproxy.amqp010.login import user_of
from amqproxy.amqp010.methods import Control
from amqproxy.amqp010.wire import Map
from amqproxy.conversion.amqp010.method_views import DEFAULT_VHOST
from amqproxy.taps.amqp010.record import plain
from amqproxy.taps.trace.events import ConnectionOpened
from amqproxy.taps.trace.handshake_facts import HandshakeFacts


class Amqp010Handshake:
    """Handshake of one connection, or the part of it that was seen; it adds to `facts`.

    `answered` is the client's last control, which the server's next one answers; `unanswered` counts the server's
    controls that the client has not answered.
    """

    __slots__ = ("_offered", "_tuned", "answered", "facts", "unanswered")

    def __init__(self, facts: HandshakeFacts) -> None:
        self.facts = facts
        self.answered: str | None = None
        self.unanswered = 0
        self._offered: ConnectionTune | None = None
        self._tuned: ConnectionTuneOk | None = None

    def restore(self) -> None:
        """Take the last control from `facts`, if the client has sent it."""
        self.answered = self.facts.step if self.facts.step in _ANSWERS else None

    def learn(self, control: Control) -> None:
        """Take a control of the handshake."""
        facts = self.facts
        facts.take_step(control.name)
        self.unanswered += _ASKED.get(control.name, 0)
        match control:
            case ConnectionStart():
                facts.server_properties = plain(control.server_properties or Map())
            case ConnectionStartOk():
                self.answered = control.name
                facts.client_properties = plain(control.client_properties or Map())
                facts.mechanism = control.mechanism
                facts.user = user_of(control.mechanism, control.response) or None
            case ConnectionSecureOk():
                self.answered = control.name
                facts.user = user_of(facts.mechanism, control.response) or facts.user
            case ConnectionTune():
                self._offered = control
                self._agree()
            case ConnectionTuneOk():
                self.answered = control.name
                self._tuned = control
                self._agree()
            case ConnectionOpen():
                self.answered = control.name
                facts.virtual_host = control.virtual_host or DEFAULT_VHOST
            case _:
                pass

    def _agree(self) -> None:
        """Take the limits of the client's tune-ok; those absent from it are those of the server's tune."""
        facts, tuned, offered = self.facts, self._tuned, self._offered
        if tuned is None:
            return
        facts.channel_max, facts.frame_max = tuned.channel_max, tuned.max_frame_size
        facts.heartbeat = tuned.heartbeat or 0
        if offered is not None:
            facts.channel_max = offered.channel_max if facts.channel_max is None else facts.channel_max
            facts.frame_max = offered.max_frame_size if facts.frame_max is None else facts.frame_max

    def opened(self, ts_ns: int) -> ConnectionOpened:
        """Return the event for connection.open-ok."""
        return self.facts.opened(ts_ns)


_ANSWERS = ("connection.start-ok", "connection.secure-ok", "connection.tune-ok", "connection.open")
"""The client's controls of the handshake."""

_ASKED = {
    "connection.start": 1,
    "connection.start-ok": -1,
    "connection.secure": 1,
    "connection.secure-ok": -1,
    "connection.tune": 1,
    "connection.open": -1,
}
"""Change of `unanswered` by each control of the handshake."""
