"""A timer heap that holds each thing at most once."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

Slot = list[Any]
"""Due time, unique number, and thing; the thing is `None` once it was rescheduled or dropped."""


class Schedule(Generic[T]):
    """Things ordered by their due time in seconds.

    `sooner` is called with the due time whenever a thing becomes the first.
    """

    def __init__(self, sooner: Callable[[float], None] = lambda when: None) -> None:
        self._sooner = sooner
        self._slots: dict[T, Slot] = {}
        self._heap: list[Slot] = []
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._slots)

    def set(self, thing: T, when: float) -> None:
        """Schedule `thing` at `when`, replacing its earlier time; remove it if `when` is infinite."""
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
        """Remove `thing` from the schedule, with every reference to it."""
        slot = self._slots.pop(thing, None)
        if slot is not None:
            slot[2] = None

    @property
    def next(self) -> float:
        """The due time of the first thing; infinite if there is none."""
        while self._heap and self._heap[0][2] is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf

    def pop_due(self, now: float) -> list[T]:
        """Remove and return all due things in the order of their times."""
        due = []
        while (thing := self.take_first(now)) is not None:
            due.append(thing)
        return due

    def take_first(self, now: float) -> T | None:
        """Remove and return the first thing if it is due, else `None`."""
        if self.next > now:
            return None
        thing: T = heapq.heappop(self._heap)[2]
        del self._slots[thing]
        return thing

    def _sweep(self) -> None:
        """Remove the slots of rescheduled and dropped things from the heap."""
        self._heap = [each for each in self._heap if each[2] is not None]
        heapq.heapify(self._heap)
