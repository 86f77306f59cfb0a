"""Deliveries that accumulate at a client."""

from __future__ import annotations

from amqproxy.taps.findings.detector import Detector, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import MessageDelivered

MANY = 10_000
"""Number of open deliveries of one channel that is reported, as is each tenfold of it."""


class UnackedGrowth(Detector):
    """Very many deliveries of a channel are open at once."""

    kind = "unacked-growth"
    severity = Severity.WARNING
    why = "Broker and client keep them in memory, no other consumer gets them, and a lost connection redelivers them."
    remedy = "Set a prefetch (basic.qos, or a window of credit), and settle each delivery when its work is done."

    _reported = MANY

    @on(MessageDelivered)
    def _on_delivered(self, event: MessageDelivered) -> str | None:
        channel = self.observed.trace.channels.get(event.channel)
        if channel is None or channel.unacked < self._reported:
            return None
        self._reported *= 10
        return f"{channel.unacked} deliveries are open"
