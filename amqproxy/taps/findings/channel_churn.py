"""Channels that are opened for one message each."""

from __future__ import annotations

from amqproxy.amqp091.methods import BasicGet
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.taps.findings.detector import Detector, ObservedConnection, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import ChannelClosed, ChannelOpened, MessagePublished, RequestAnswered

IN_A_ROW = 10
"""Number of successive channels with one message each that counts as a habit."""


class ChannelPerMessage(Detector):
    """Channels are opened, used for one message, and closed again."""

    kind = "channel-per-message"
    severity = Severity.WARNING
    why = "Each message costs two round trips more, and the broker starts and stops two processes for each channel."
    remedy = "Keep a channel open for as long as its thread or task publishes."

    def __init__(self, observed: ObservedConnection) -> None:
        super().__init__(observed)
        self._used: dict[int, int] = {}
        self._in_a_row = 0

    @on(ChannelOpened)
    def _on_opened(self, event: ChannelOpened) -> None:
        self._used[event.channel] = 0

    @on(MessagePublished)
    def _on_published(self, event: MessagePublished) -> None:
        if event.channel in self._used:
            self._used[event.channel] += 1

    @on(RequestAnswered)
    def _on_answered(self, event: RequestAnswered) -> None:
        if isinstance(event.request, BasicGet) and event.channel in self._used:
            self._used[event.channel] += 1

    @on(ChannelClosed)
    def _on_closed(self, event: ChannelClosed) -> str | None:
        used = self._used.pop(event.channel, 0)
        if event.by is not CLIENT or used != 1:
            self._in_a_row = 0
            return None
        self._in_a_row += 1
        if self._in_a_row < IN_A_ROW:
            return None
        self._in_a_row = 0
        return f"{IN_A_ROW} channels in a row were opened for one message each"
