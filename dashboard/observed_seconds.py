"""Seconds of a source's traffic that were observed completely, so that rates are computed from these alone."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

SECOND = 1_000_000_000

SPAN = 60
"""Seconds before the present over which recent rates are computed."""

LATE = 1
"""Seconds by which live traffic may reach the dashboard late; the newest ones are left out of rates."""


class Window(NamedTuple):
    """Seconds over which rates are computed; unless `is_complete`, traffic was lost in each of them."""

    seconds: Sequence[int]
    is_complete: bool


class ObservedSeconds:
    """First and newest second of the traffic, and the recent seconds in which some of it was lost."""

    __slots__ = ("_incomplete", "_lost_from", "first", "newest")

    def __init__(self) -> None:
        self.first: int | None = None
        self.newest = 0
        self._incomplete: set[int] = set()
        self._lost_from: int | None = None

    def take(self, ts_ns: int) -> None:
        """Note that traffic of this time was observed."""
        second = ts_ns // SECOND
        if self._lost_from is not None:
            self._incomplete.update(range(max(self._lost_from, second - SPAN), second + 1))
            self._incomplete = {each for each in self._incomplete if each > second - 2 * SPAN}
            self._lost_from = None
        if self.first is None:
            self.first = second
        if second > self.newest:
            self.newest = second

    def lose(self) -> None:
        """Note that traffic was lost between the newest that was observed and the next."""
        if self._lost_from is None and self.first is not None:
            self._lost_from = self.newest

    def window(self, now_ns: int) -> Window:
        """Return the seconds of the last minute before `now_ns` that are over and were observed completely."""
        if self.first is None:
            return Window((), True)
        end = now_ns // SECOND - LATE
        if self._lost_from is not None:
            end = min(end, self._lost_from)
        # The first second may have begun before the traffic was observed.
        there = range(max(self.first + 1, end - SPAN), end)
        complete = [each for each in there if each not in self._incomplete]
        return Window(complete, True) if complete or not there else Window(there, False)


class RecentCounts:
    """Counts of the last `SPAN` seconds and of the `LATE` ones, by second."""

    __slots__ = ("_counts", "_newest")

    SIZE = SPAN + LATE + 1

    def __init__(self) -> None:
        self._counts = array("I", bytes(4 * self.SIZE))
        self._newest = 0

    def add(self, ts_ns: int) -> None:
        """Count one message; one that is too old is left out."""
        second = ts_ns // SECOND
        if second > self._newest:
            for each in range(max(self._newest + 1, second - self.SIZE + 1), second + 1):
                self._counts[each % self.SIZE] = 0
            self._newest = second
        if second > self._newest - self.SIZE:
            self._counts[second % self.SIZE] += 1

    def at(self, second: int) -> int:
        """Return the count of a second; 0 if it is no longer kept."""
        return self._counts[second % self.SIZE] if self._newest - self.SIZE < second <= self._newest else 0

    def total(self, seconds: Sequence[int]) -> int:
        """Return the sum of the counts of some seconds, in ascending order."""
        return 0 if not seconds or seconds[0] > self._newest else sum(map(self.at, seconds))
