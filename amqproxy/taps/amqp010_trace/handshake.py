"""What the peers of a connection say of themselves, and agree on, before it is open. Section 9.1, connection."""

from __future__ import annotations

from typing import Any

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
from amqproxy.taps.amqp010_record import plain
from amqproxy.taps.trace.events import ConnectionOpened


class AMQP010Handshake:
    """The handshake of one connection, as far as it was seen.

    `greeted_ts_ns` is when the client sent its protocol header, `answered` the client's control that the server has
    answered by what comes next; `unanswered` counts what the server has asked, and the client not answered.
    """

    __slots__ = (
        "_client_properties",
        "_mechanism",
        "_offered",
        "_server_properties",
        "_tuned",
        "_user",
        "_virtual_host",
        "answered",
        "greeted_ts_ns",
        "unanswered",
    )

    def __init__(self) -> None:
        self.greeted_ts_ns: int | None = None
        self.answered: str | None = None
        self.unanswered = 0
        self._mechanism: str | None = None
        self._user: str | None = None
        self._client_properties: Map | None = None
        self._server_properties: Map | None = None
        self._offered: ConnectionTune | None = None
        self._tuned: ConnectionTuneOk | None = None
        self._virtual_host: str | None = None

    def learn(self, control: Control) -> None:
        """Take a control of the handshake."""
        self.unanswered += _ASKED.get(control.name, 0)
        match control:
            case ConnectionStart():
                self._server_properties = control.server_properties or Map()
            case ConnectionStartOk():
                self.answered = control.name
                self._client_properties, self._mechanism = control.client_properties or Map(), control.mechanism
                self._user = user_of(control) or None
            case ConnectionSecureOk():
                self.answered = control.name
            case ConnectionTune():
                self._offered = control
            case ConnectionTuneOk():
                self._tuned = control
            case ConnectionOpen():
                self.answered = control.name
                self._virtual_host = control.virtual_host or ""
            case _:
                pass

    def opened(self, ts_ns: int) -> ConnectionOpened:
        """The server has sent connection.open-ok. What tune-ok leaves out is as the server has offered it."""
        tuned, offered = self._tuned, self._offered
        channel_max = frame_max = heartbeat = None
        if tuned is not None:
            channel_max, frame_max, heartbeat = tuned.channel_max, tuned.max_frame_size, tuned.heartbeat or 0
            if offered is not None:
                channel_max = offered.channel_max if channel_max is None else channel_max
                frame_max = offered.max_frame_size if frame_max is None else frame_max
        return ConnectionOpened(
            ts_ns=ts_ns,
            virtual_host=self._virtual_host,
            mechanism=self._mechanism,
            user=self._user,
            client_properties=_plain(self._client_properties),
            server_properties=_plain(self._server_properties),
            channel_max=channel_max,
            frame_max=frame_max,
            heartbeat=heartbeat,
            latency_ns=None if self.greeted_ts_ns is None else ts_ns - self.greeted_ts_ns,
        )


_ASKED = {
    "connection.start": 1,
    "connection.start-ok": -1,
    "connection.secure": 1,
    "connection.secure-ok": -1,
    "connection.tune": 1,
    "connection.open": -1,
}
"""What the server asks, and the client's answers."""


def _plain(properties: Map | None) -> dict[str, Any] | None:
    return None if properties is None else plain(properties)
