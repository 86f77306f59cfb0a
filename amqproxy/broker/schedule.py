"""What is due, and when: a heap in which each thing stands once."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Schedule(Generic[T]):
    """Things by the time (seconds) at which they want to be looked at.

    `sooner` is told the time whenever something is due before all else that is.
    """

    def __init__(self, sooner: Callable[[float], None] = lambda when: None) -> None:
        self._sooner = sooner
        self._when: dict[T, float] = {}
        self._heap: list[tuple[float, int, T]] = []
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._when)

    def set(self, thing: T, when: float) -> None:
        """Look at `thing` at `when`, and at no other time; never, if that is infinite."""
        if math.isinf(when):
            self._when.pop(thing, None)
        elif self._when.get(thing) != when:
            self._when[thing] = when
            heapq.heappush(self._heap, (when, next(self._numbers), thing))
            if self._heap[0][0] == when:
                self._sooner(when)
            if len(self._heap) > 64 and len(self._heap) > 4 * len(self._when):
                self._sweep()

    def drop(self, thing: T) -> None:
        """Do not look at `thing` any more."""
        self._when.pop(thing, None)

    @property
    def next(self) -> float:
        """When the first is due."""
        while self._heap and self._when.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf

    def take(self, now: float) -> list[T]:
        """Take out all that is due, in the order of their times."""
        due = []
        while (thing := self.take_first(now)) is not None:
            due.append(thing)
        return due

    def take_first(self, now: float) -> T | None:
        """Take out the first, if it is due."""
        if self.next > now:
            return None
        thing = heapq.heappop(self._heap)[2]
        del self._when[thing]
        return thing

    def _sweep(self) -> None:
        """Forget the places of what has been moved since."""
        self._heap = [each for each in self._heap if self._when.get(each[2]) == each[0]]
        heapq.heapify(self._heap)
