"""Consumers that delay the others of their channel."""

from __future__ import annotations

from amqproxy.taps.findings.detector import Detector, ObservedConnection, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import ChannelClosed, DeliveriesSettled

MAX_CONSUMERS = 1000
"""Limit on the consumers of one connection that are timed."""

LEAST = 20
"""Number of deliveries that each of two consumers must have settled before they are compared."""

FACTOR = 20
"""Ratio to the fastest consumer of its channel from which a consumer counts as slow."""

SLOW_NS = 100_000_000
"""Time per delivery in nanoseconds below which a consumer is never slow."""


class SlowConsumer(Detector):
    """A consumer takes far longer than another on the same channel."""

    kind = "slow-consumer"
    severity = Severity.INFO
    why = "Consumers of one channel share its order of delivery: the slow one leaves the fast ones waiting."
    remedy = "Give the slow consumer a channel of its own, with a prefetch of its own."

    def __init__(self, observed: ObservedConnection) -> None:
        super().__init__(observed)
        self._times: dict[tuple[int, str], tuple[int, int]] = {}
        self._reported: set[tuple[int, str]] = set()

    @on(DeliveriesSettled)
    def _on_settled(self, event: DeliveriesSettled) -> str | None:
        found = None
        for span in event.spans:
            if event.tag is None or span.consumer_tag is None:
                continue
            place = (event.channel, span.consumer_tag)
            if place not in self._times and len(self._times) >= MAX_CONSUMERS:
                continue
            count, total = self._times.get(place, (0, 0))
            self._times[place] = (count + span.count, total + span.count * (event.ts_ns - span.ts_ns))
            found = found or self._compared(place)
        return found

    def _compared(self, place: tuple[int, str]) -> str | None:
        count, total = self._times[place]
        if count < LEAST or place in self._reported or total / count < SLOW_NS:
            return None
        others = [
            spent / settled
            for (channel, tag), (settled, spent) in self._times.items()
            if channel == place[0] and tag != place[1] and settled >= LEAST
        ]
        if not others or total / count < FACTOR * max(min(others), 1):
            return None
        self._reported.add(place)
        return (
            f"consumer {place[1]} takes {total / count / 1e6:.0f} ms a delivery, "
            f"another on its channel {min(others) / 1e6:.1f} ms"
        )

    @on(ChannelClosed)
    def _on_closed(self, event: ChannelClosed) -> None:
        self._times = {place: times for place, times in self._times.items() if place[0] != event.channel}
        self._reported = {place for place in self._reported if place[0] != event.channel}
