"""Metrics of one 0-10 connection of the broker, counted as the proxy counts its sessions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from amqproxy.amqp010.commands import ExecutionException
from amqproxy.amqp010.controls import (
    ConnectionClose,
    ConnectionOpenOk,
    ConnectionTune,
    SessionAttached,
    SessionDetach,
    SessionDetached,
)
from amqproxy.amqp010.domains import CloseCode
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.methods import Method
from amqproxy.broker.server.reading import ConnectionMeter
from amqproxy.peer import SERVER, Peer
from amqproxy.taps.amqp010.session_ends import SessionEnds
from amqproxy.taps.metering.amqp010.meter import Amqp010Meter, AttachmentMeter
from amqproxy.taps.metrics import Metrics, code_label

_COUNTED = frozenset(
    each.index
    for each in (
        ConnectionTune,
        ConnectionOpenOk,
        ConnectionClose,
        SessionAttached,
        SessionDetach,
        SessionDetached,
        ExecutionException,
    )
)


class Amqp010ConnectionMeter(ConnectionMeter):
    """Metrics of one 0-10 connection."""

    _messages: Amqp010Meter | None

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(metrics, None if metrics.messages is None else Amqp010Meter(metrics.messages))
        self._ends = SessionEnds()
        self._is_known = False

    @property
    def messages(self) -> Amqp010Meter | None:
        return self._messages

    def channel(self, number: int) -> AttachmentMeter | None:
        """Return the open messages of the session on a channel, if they are counted and there is one."""
        return None if self._messages is None else self._messages.session(number)

    def count(self, sender: Peer, frames: Sequence[Frame], data: bytes | memoryview, now: float) -> None:
        """Count whole frames, whose bytes are `data`; `now` is in seconds."""
        if self._messages is not None:
            self._messages.feed(sender is SERVER, data, now)
        for frame in frames:
            if frame.index in _COUNTED and frame.is_whole_segment:
                with suppress(ProtocolError):  # the broker answers that
                    self._count_method(sender, frame.channel, frame.method)

    def _count_method(self, sender: Peer, channel: int, method: Method) -> None:
        metrics = self._metrics
        match method:
            case ConnectionTune():
                self._is_known = True
            case ConnectionOpenOk():
                metrics.opened.inc()
            case ConnectionClose():
                code = method.reply_code or 0
                if self._end is None:
                    self._end = str(sender), code
                    if sender is SERVER and code == CloseCode.CONNECTION_FORCED and not self._is_known:
                        metrics.logins_refused.inc()
            case SessionAttached():
                metrics.channels_opened.inc()
            case _:
                ended = self._ends.code(sender, channel, method)
                if ended is not None:
                    metrics.channel_closes.labels(str(sender), code_label(ended)).inc()
