"""Spans that wait to be exported, between the loop that makes them and the thread that exports them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from threading import Event

from amqproxy.telemetry.message_span import MessageSpan
from amqproxy.telemetry.span_budget import SpanBudget

BATCH = 512
"""Spans that are exported at a time, as OpenTelemetry's OTEL_BSP_MAX_EXPORT_BATCH_SIZE."""


class SpanQueue:
    """Takes spans without ever waiting, and hands them out in batches.

    Their room in the `budget` has been taken; what takes them gives it back.
    """

    def __init__(self, budget: SpanBudget) -> None:
        self._budget = budget
        self._spans: deque[MessageSpan] = deque()  # its ends may be used by two threads
        self._something = Event()
        self.is_closed = False

    def add(self, spans: Iterable[MessageSpan]) -> None:
        """Let spans wait."""
        if self.is_closed:
            self.give_back(list(spans))
            return
        self._spans.extend(spans)
        if len(self._spans) >= BATCH:
            self._something.set()

    def close(self) -> None:
        """No spans are added any more; those that wait may still be taken."""
        self.is_closed = True
        self._something.set()

    def take(self) -> list[MessageSpan]:
        """The next spans, BATCH at most."""
        spans = self._spans
        return [spans.popleft() for _ in range(min(BATCH, len(spans)))]

    def wait(self, seconds: float) -> None:
        """Wait until a batch is full or the queue is closed, but no longer than this."""
        if len(self._spans) < BATCH and not self.is_closed:
            self._something.clear()
            if len(self._spans) < BATCH and not self.is_closed:
                self._something.wait(seconds)

    def give_back(self, spans: list[MessageSpan]) -> None:
        """Give back the room of spans that were taken."""
        self._budget.give(len(spans), sum(span.cost for span in spans))

    def clear(self) -> int:
        """Drop those that wait; how many these are."""
        dropped = 0
        while batch := self.take():
            self.give_back(batch)
            dropped += len(batch)
        return dropped
