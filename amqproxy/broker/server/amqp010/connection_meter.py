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


class Amqp010ConnectionMeter:
    """Metrics of one connection from its first frame on; the frames themselves are counted by the reading."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._messages = None if metrics.messages is None else Amqp010Meter(metrics.messages)
        self._ends = SessionEnds()
        self._is_known = False
        self._end: tuple[str, int] | None = None

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

    def lose(self) -> None:
        """Stop counting messages."""
        messages, self._messages = self._messages, None
        if messages is not None:
            messages.close()

    def count_violation(self, sender: Peer, error: ProtocolError) -> None:
        """Count a protocol error."""
        self._metrics.protocol_errors.labels(str(sender), code_label(int(error.code))).inc()

    def close(self) -> None:
        """Count the end of the connection."""
        by, code = self._end or ("client", 0)
        self._metrics.closes.labels(by, code_label(code) if code else "none").inc()
        self.lose()

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
