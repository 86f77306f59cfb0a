"""Metrics of one 0-9-1 connection of the broker, counted as the proxy counts its sessions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from amqproxy.amqp091.errors import AccessRefused, ProtocolError
from amqproxy.amqp091.frame import METHOD, Frame
from amqproxy.amqp091.methods import ChannelClose, ChannelOpenOk, ConnectionClose, ConnectionOpenOk, Method
from amqproxy.amqp091.transitions import SERVER, Peer
from amqproxy.broker.server.reading import ConnectionMeter
from amqproxy.taps.metering.amqp091.channel_meter import ChannelMeter
from amqproxy.taps.metering.amqp091.message_meter import MessageMeter
from amqproxy.taps.metrics import Metrics, code_label

_COUNTED = frozenset(each.index for each in (ConnectionOpenOk, ConnectionClose, ChannelOpenOk, ChannelClose))
"""The methods with metrics beyond the frame counts."""


class Amqp091ConnectionMeter(ConnectionMeter):
    """Metrics of one 0-9-1 connection."""

    _messages: MessageMeter | None

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(metrics, None if metrics.messages is None else MessageMeter(metrics.messages))
        self._is_open = False

    @property
    def messages(self) -> MessageMeter | None:
        return None if self._messages is None or self._messages.is_lost else self._messages

    def channel(self, number: int) -> ChannelMeter | None:
        """Return the meter of a channel's open messages; `None` if messages are not counted."""
        return None if self.messages is None else self.messages.channel(number)

    def count(self, sender: Peer, frames: Sequence[Frame], now: float) -> None:
        """Count whole frames; `now` is in seconds."""
        if self._messages is not None:
            self._messages.feed(sender is SERVER, b"".join([frame.raw for frame in frames]), now)
        for frame in frames:
            if frame.kind == METHOD and frame.index in _COUNTED:
                with suppress(ProtocolError):  # the broker answers that
                    self._count_method(sender, frame.method)

    def _count_method(self, sender: Peer, method: Method) -> None:
        metrics = self._metrics
        match method:
            case ConnectionOpenOk():
                self._is_open = True
                metrics.opened.inc()
            case ConnectionClose():
                self._end = self._end or (str(sender), method.reply_code)
                if sender is SERVER and method.reply_code == AccessRefused.code and not self._is_open:
                    metrics.logins_refused.inc()
            case ChannelOpenOk():
                metrics.channels_opened.inc()
            case ChannelClose():
                metrics.channel_closes.labels(str(sender), code_label(method.reply_code)).inc()
            case _:
                raise AssertionError(method)
