"""Consumers that are started for one message each."""

from __future__ import annotations

from amqproxy.amqp091.methods import BasicCancel, BasicConsume
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.taps.findings.detector import Detector, ObservedConnection, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import ChannelClosed, MessageDelivered, RequestAnswered, RequestSent

IN_A_ROW = 10
"""So many consumers in a row, each with one message at most, are a habit."""

MAX_CONSUMERS = 1000
"""Consumers of one connection whose deliveries are counted."""


class ConsumerPerMessage(Detector):
    """Consumers are started and cancelled for each message."""

    kind = "consumer-per-message"
    severity = Severity.WARNING
    why = "Each message costs four round trips, and what was prefetched is requeued each time."
    remedy = "Start a consumer once and leave it; to take single messages slowly, use prefetch_count = 1."

    def __init__(self, observed: ObservedConnection) -> None:
        super().__init__(observed)
        self._deliveries: dict[tuple[int, str], int] = {}
        self._in_a_row = 0

    @on(MessageDelivered)
    def _on_delivered(self, event: MessageDelivered) -> None:
        place = (event.channel, getattr(event.method, "consumer_tag", ""))
        if place in self._deliveries:
            self._deliveries[place] += 1

    @on(RequestAnswered, RequestSent)
    def _on_request(self, event: RequestAnswered | RequestSent) -> str | None:
        request = event.request
        if isinstance(request, BasicConsume):
            tag = getattr(event.reply, "consumer_tag", "") if isinstance(event, RequestAnswered) else ""
            if len(self._deliveries) < MAX_CONSUMERS:
                self._deliveries[event.channel, tag or request.consumer_tag] = 0
        elif isinstance(request, BasicCancel) and event.sender is CLIENT:
            deliveries = self._deliveries.pop((event.channel, request.consumer_tag), None)
            self._in_a_row = self._in_a_row + 1 if deliveries is not None and deliveries <= 1 else 0
            if self._in_a_row == IN_A_ROW:
                self._in_a_row = 0
                return f"{IN_A_ROW} consumers in a row were cancelled after one message or none"
        return None

    @on(ChannelClosed)
    def _on_closed(self, event: ChannelClosed) -> None:
        self._deliveries = {place: count for place, count in self._deliveries.items() if place[0] != event.channel}
