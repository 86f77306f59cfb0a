"""Queue of spans between the event loop that makes them and the thread that exports them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from threading import Event

from amqproxy.telemetry.message_span import MessageSpan
from amqproxy.telemetry.span_budget import SpanBudget

BATCH = 512
"""Number of spans exported at a time, as OpenTelemetry's OTEL_BSP_MAX_EXPORT_BATCH_SIZE."""


class SpanQueue:
    """Queue of spans that never blocks their producer, and hands them out in batches.

    Their room in the `budget` has been taken; the consumer of the queue gives it back.
    """

    def __init__(self, budget: SpanBudget) -> None:
        self._budget = budget
        self._spans: deque[MessageSpan] = deque()  # safe for one thread at each end
        self._something = Event()
        self.is_closed = False

    def add(self, spans: Iterable[MessageSpan]) -> None:
        """Add spans, or return their room to the budget if the queue is closed."""
        if self.is_closed:
            self.give_back(list(spans))
            return
        self._spans.extend(spans)
        if len(self._spans) >= BATCH:
            self._something.set()

    def close(self) -> None:
        """Accept no more spans; the waiting ones may still be taken."""
        self.is_closed = True
        self._something.set()

    def take(self) -> list[MessageSpan]:
        """Remove and return the next spans, at most `BATCH`."""
        spans = self._spans
        return [spans.popleft() for _ in range(min(BATCH, len(spans)))]

    def wait(self, seconds: float) -> None:
        """Wait until a batch is full or the queue is closed, at most `seconds`."""
        if len(self._spans) < BATCH and not self.is_closed:
            self._something.clear()
            if len(self._spans) < BATCH and not self.is_closed:
                self._something.wait(seconds)

    def give_back(self, spans: list[MessageSpan]) -> None:
        """Return the room of spans to the budget."""
        self._budget.give(len(spans), sum(span.cost for span in spans))

    def clear(self) -> int:
        """Drop the waiting spans, and return their number."""
        dropped = 0
        while batch := self.take():
            self.give_back(batch)
            dropped += len(batch)
        return dropped
