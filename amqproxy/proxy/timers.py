"""Timers without a clock of their own: the caller passes in the time."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any

MAX_TIMERS = 65_536
"""How many things one session may have to do later; one more is an `OverflowError`."""

FEW = 64
"""Timers that were cancelled which may lie among the others, however few those are."""


class Timer:
    """Something that is done once, unless it is cancelled before; then it keeps nothing of what it was to do."""

    __slots__ = ("_do", "_timers")

    def __init__(self, timers: Timers, do: Callable[[], Any]) -> None:
        self._timers = timers
        self._do: Callable[[], Any] | None = do

    @property
    def is_due(self) -> bool:
        """Is it still to be done?"""
        return self._do is not None

    def cancel(self) -> None:
        """It is not to be done any more. In vain once it was done."""
        if self._do is not None:
            self._do = None
            self._timers.note_cancelled()

    def take(self) -> Callable[[], Any] | None:
        """What is to be done, if it still is; it counts as done then."""
        do, self._do = self._do, None
        return do


class Timers:
    """Timers in their order: by their time, and those of the same time as they were set."""

    __slots__ = ("_cancelled", "_heap", "_numbers")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def at(self, when: float, do: Callable[[], Any]) -> Timer:
        """Have it done at `when`, in seconds."""
        if len(self) >= MAX_TIMERS:
            raise OverflowError(f"more than {MAX_TIMERS} things are to be done later")
        timer = Timer(self, do)
        heapq.heappush(self._heap, (when, next(self._numbers), timer))
        return timer

    @property
    def next_deadline(self) -> float:
        """When something is to be done next, in seconds; infinity when nothing is."""
        heap = self._heap
        while heap and not heap[0][2].is_due:
            heapq.heappop(heap)
            self._cancelled -= 1
        return heap[0][0] if heap else float("inf")

    def take_due(self, now: float) -> Callable[[], Any] | None:
        """What is to be done by now, one thing at a time; None when there is no more."""
        return heapq.heappop(self._heap)[2].take() if self.next_deadline <= now else None

    def note_cancelled(self) -> None:
        """Let go of the cancelled ones when they are many."""
        self._cancelled += 1
        if self._cancelled > FEW and 2 * self._cancelled > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].is_due]
            heapq.heapify(self._heap)
            self._cancelled = 0
