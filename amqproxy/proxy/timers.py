"""Timers without a clock: the caller passes in the time."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any

MAX_TIMERS = 65_536
"""Maximum of pending timers of one session; one more raises `OverflowError`."""

FEW = 64
"""Number of cancelled timers tolerated in the heap, however few others there are."""


class Timer:
    """A function to be called once, unless it is cancelled, which drops the reference to it."""

    __slots__ = ("_do", "_timers")

    def __init__(self, timers: Timers, do: Callable[[], Any]) -> None:
        self._timers = timers
        self._do: Callable[[], Any] | None = do

    @property
    def is_due(self) -> bool:
        """Whether the timer has neither fired nor been cancelled."""
        return self._do is not None

    def cancel(self) -> None:
        """Cancel the timer; no effect once it has fired."""
        if self._do is not None:
            self._do = None
            self._timers.note_cancelled()

    def take(self) -> Callable[[], Any] | None:
        """Return the function and mark the timer as fired; `None` if it has fired or was cancelled."""
        do, self._do = self._do, None
        return do


class Timers:
    """Timers in order of their time, and of their creation for equal times."""

    __slots__ = ("_cancelled", "_heap", "_numbers")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def at(self, when: float, do: Callable[[], Any]) -> Timer:
        """Create a timer for `when`, in seconds."""
        if len(self) >= MAX_TIMERS:
            raise OverflowError(f"more than {MAX_TIMERS} things are to be done later")
        timer = Timer(self, do)
        heapq.heappush(self._heap, (when, next(self._numbers), timer))
        return timer

    @property
    def next_deadline(self) -> float:
        """The earliest time of a pending timer, in seconds; infinity if there is none."""
        heap = self._heap
        while heap and not heap[0][2].is_due:
            heapq.heappop(heap)
            self._cancelled -= 1
        return heap[0][0] if heap else float("inf")

    def take_due(self, now: float) -> Callable[[], Any] | None:
        """Remove the first timer that is due by `now` and return its function; `None` if there is none."""
        return heapq.heappop(self._heap)[2].take() if self.next_deadline <= now else None

    def note_cancelled(self) -> None:
        """Count a cancelled timer, and remove all cancelled ones from the heap if they are many."""
        self._cancelled += 1
        if self._cancelled > FEW and 2 * self._cancelled > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].is_due]
            heapq.heapify(self._heap)
            self._cancelled = 0
