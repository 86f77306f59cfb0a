"""Deliveries that a later RabbitMQ does not repeat for ever."""

from __future__ import annotations

from amqproxy.rabbitmq.incompatibility import DELIVERY_LIMIT
from amqproxy.taps.findings.detector import ObservedConnection, on
from amqproxy.taps.findings.rabbitmq4.queues_of import QueuesOf
from amqproxy.taps.findings.rabbitmq4.upgrade_detector import TARGET, UpgradeDetector
from amqproxy.taps.trace.events import (
    DeliveriesSettled,
    MessageDelivered,
    RequestAnswered,
    RequestSent,
    Settlement,
    encoded_headers,
)

MANY = 10
"""Number of returns of a message from which it may reach the limit of 20."""

COUNT = "x-delivery-count"
"""Header in which quorum queues count the returns of a message."""


class RepeatedDelivery(UpgradeDetector):
    """A quorum queue without a delivery limit delivers a message again and again."""

    incompatibility = DELIVERY_LIMIT

    def __init__(self, observed: ObservedConnection) -> None:
        super().__init__(observed)
        self._safe = QueuesOf()
        self._has_rejected = self._has_nacked = False

    @on(RequestAnswered, RequestSent)
    def _on_request(self, event: RequestAnswered | RequestSent) -> None:
        self._safe.note(
            event, lambda queue: "x-delivery-limit" in queue.arguments or "x-dead-letter-exchange" in queue.arguments
        )

    @on(DeliveriesSettled)
    def _on_settled(self, event: DeliveriesSettled) -> None:
        if event.requeue:
            self._has_rejected |= event.outcome is Settlement.REJECTED
            self._has_nacked |= event.outcome is Settlement.NACKED

    @on(MessageDelivered)
    def _on_delivered(self, event: MessageDelivered) -> str | None:
        headers = event.properties.headers
        if headers is None or not event.method.redelivered or COUNT.encode() not in encoded_headers(event.properties):
            return None
        count = headers.get(COUNT)
        if not isinstance(count, int) or count < MANY or event.queue in self._safe:
            return None
        if TARGET.counts_acquisitions and self._has_nacked and not self._has_rejected:
            return None  # what basic.nack returns does not count towards the limit of RabbitMQ 4.3
        return self.advice(f"a message of queue {event.queue or '(unknown)'} was delivered {MANY} times or more")
