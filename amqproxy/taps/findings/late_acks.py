"""Acknowledgements that come close to the broker's timeout, or after it."""

from __future__ import annotations

from amqproxy.taps.findings.detector import Detector, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import DeliveriesSettled, Settlement

CONSUMER_TIMEOUT = 30 * 60
"""Seconds after which RabbitMQ closes a channel with an unsettled delivery: its default `consumer_timeout`."""

NEAR = CONSUMER_TIMEOUT / 2


class LateAck(Detector):
    """A delivery was settled half an acknowledgement timeout after it came, or later."""

    kind = "late-ack"
    severity = Severity.WARNING
    why = "A broker may close the channel then, and deliver the message again: RabbitMQ does after 30 minutes."
    remedy = "Do long work in smaller steps, with a smaller prefetch, or raise the queue's consumer_timeout."

    @on(DeliveriesSettled)
    def _on_settled(self, event: DeliveriesSettled) -> str | None:
        if not event.spans or event.tag is None or event.outcome is Settlement.UNKNOWN or not event.is_certain:
            return None
        longest = (event.ts_ns - min(span.ts_ns for span in event.spans)) / 1e9
        return f"a delivery was open for {longest / 60:.0f} minutes" if longest >= NEAR else None
