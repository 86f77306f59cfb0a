"""What is due, and when: a heap in which each thing stands once."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

Slot = list[Any]
"""When, a number that no other has, and the thing: None once it is due at another time, or never."""


class Schedule(Generic[T]):
    """Things by the time (seconds) at which they want to be looked at.

    `sooner` is called with the time whenever something becomes due before everything else.
    """

    def __init__(self, sooner: Callable[[float], None] = lambda when: None) -> None:
        self._sooner = sooner
        self._slots: dict[T, Slot] = {}
        self._heap: list[Slot] = []
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._slots)

    def set(self, thing: T, when: float) -> None:
        """Look at `thing` at `when`, and at no other time; never, if that is infinite."""
        slot = self._slots.get(thing)
        if slot is not None:
            if slot[0] == when:
                return
            slot[2] = None
        if math.isinf(when):
            self._slots.pop(thing, None)
            return
        self._slots[thing] = slot = [when, next(self._numbers), thing]
        heapq.heappush(self._heap, slot)
        if self._heap[0][0] == when:
            self._sooner(when)
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._slots):
            self._sweep()

    def drop(self, thing: T) -> None:
        """Do not look at `thing` any more, and keep nothing of it."""
        slot = self._slots.pop(thing, None)
        if slot is not None:
            slot[2] = None

    @property
    def next(self) -> float:
        """When the first is due."""
        while self._heap and self._heap[0][2] is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf

    def pop_due(self, now: float) -> list[T]:
        """Take out all that is due, in the order of their times."""
        due = []
        while (thing := self.take_first(now)) is not None:
            due.append(thing)
        return due

    def take_first(self, now: float) -> T | None:
        """Take out the first, if it is due."""
        if self.next > now:
            return None
        thing: T = heapq.heappop(self._heap)[2]
        del self._slots[thing]
        return thing

    def _sweep(self) -> None:
        """Forget the places of what has been moved since."""
        self._heap = [each for each in self._heap if each[2] is not None]
        heapq.heapify(self._heap)
