"""Consumers that are started for one message each."""

from __future__ import annotations

from amqproxy.amqp091.methods import BasicCancel, BasicConsume
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.taps.findings.detector import Detector, ObservedConnection, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.equivalents import equivalent
from amqproxy.taps.trace.events import (
    ChannelClosed,
    DeliveriesSettled,
    MessageDelivered,
    RequestAnswered,
    RequestSent,
    Settlement,
)

IN_A_ROW = 10
"""Number of successive consumers with at most one message each that counts as a habit."""

MAX_CONSUMERS = 1000
"""Limit on the consumers of one connection whose messages are counted."""


class ConsumerPerMessage(Detector):
    """Consumers are started and cancelled for each message."""

    kind = "consumer-per-message"
    severity = Severity.WARNING
    why = "Each message costs four round trips, and what was prefetched is requeued each time."
    remedy = "Start a consumer once and leave it; to take single messages slowly, use prefetch_count = 1."

    def __init__(self, observed: ObservedConnection) -> None:
        super().__init__(observed)
        self._done: dict[tuple[int, str], int] = {}
        """Number of messages that each consumer has processed."""
        self._cancelled: dict[int, dict[str, None]] = {}
        """Cancelled consumers of each channel that may still settle their deliveries."""
        self._in_a_row = 0

    @on(MessageDelivered)
    def _on_delivered(self, event: MessageDelivered) -> None:
        if event.awaits is False:
            self._count(event.channel, getattr(event.method, "consumer_tag", ""), 1)

    @on(DeliveriesSettled)
    def _on_settled(self, event: DeliveriesSettled) -> None:
        if event.tag is None or (event.outcome is not Settlement.ACKED and event.requeue):
            return  # a requeued message was not processed
        for span in event.spans:
            if span.consumer_tag is not None:
                self._count(event.channel, span.consumer_tag, span.count)

    def _count(self, channel: int, tag: str, messages: int) -> None:
        place = (channel, tag)
        if place in self._done:
            self._done[place] += messages

    @on(RequestAnswered, RequestSent)
    def _on_request(self, event: RequestAnswered | RequestSent) -> str | None:
        request = equivalent(event.request)
        if isinstance(request, BasicConsume):
            found = self._judge(event.channel)
            tag = getattr(event.reply, "consumer_tag", "") if isinstance(event, RequestAnswered) else ""
            if len(self._done) < MAX_CONSUMERS:
                self._done[event.channel, tag or request.consumer_tag] = 0
            return found
        if isinstance(request, BasicCancel) and event.sender is CLIENT:
            if (event.channel, request.consumer_tag) in self._done:
                self._cancelled.setdefault(event.channel, {})[request.consumer_tag] = None
            else:
                self._in_a_row = 0
        return None

    @on(ChannelClosed)
    def _on_closed(self, event: ChannelClosed) -> str | None:
        found = self._judge(event.channel)
        self._done = {place: count for place, count in self._done.items() if place[0] != event.channel}
        return found

    def _judge(self, channel: int) -> str | None:
        """Return a finding about the cancelled consumers of a channel, which settle nothing more, if there is one."""
        found = None
        for tag in self._cancelled.pop(channel, ()):
            self._in_a_row = self._in_a_row + 1 if self._done.pop((channel, tag)) <= 1 else 0
            if self._in_a_row == IN_A_ROW:
                self._in_a_row = 0
                found = f"{IN_A_ROW} consumers in a row were cancelled after one message or none"
        return found
