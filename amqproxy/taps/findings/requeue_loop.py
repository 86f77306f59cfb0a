"""Messages that go back and forth between a queue and a client."""

from __future__ import annotations

from amqproxy.taps.findings.detector import Detector, ObservedConnection, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import DeliveriesSettled, MessageDelivered, Settlement

IN_A_ROW = 20
"""Number of successive redelivered messages requeued again that counts as a loop."""


class RequeueLoop(Detector):
    """Redelivered messages are requeued again and again, with no acknowledgement in between."""

    kind = "requeue-loop"
    severity = Severity.ERROR
    why = "The same messages go back and forth as fast as the network allows, and keep broker and client busy."
    remedy = "Reject with requeue = false into a dead-letter exchange, or use a quorum queue with a delivery-limit."

    def __init__(self, observed: ObservedConnection) -> None:
        super().__init__(observed)
        self._is_redelivered = False
        self._in_a_row = 0

    @on(MessageDelivered)
    def _on_delivered(self, event: MessageDelivered) -> None:
        self._is_redelivered = event.method.redelivered

    @on(DeliveriesSettled)
    def _on_settled(self, event: DeliveriesSettled) -> str | None:
        if event.outcome is Settlement.ACKED or not event.requeue:
            self._in_a_row = 0
        elif self._is_redelivered and event.spans:
            self._in_a_row += sum(span.count for span in event.spans)
            if self._in_a_row >= IN_A_ROW:
                self._in_a_row = 0
                return f"{IN_A_ROW} messages that had been delivered before were requeued, and none was acknowledged"
        return None
