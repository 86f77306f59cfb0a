"""The heaviest of a large number of keys, counted in a table of bounded size."""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

import msgspec

MAX_COUNTED = 1024
"""Keys of one kind that are counted individually."""

K = TypeVar("K")


class Counted(msgspec.Struct):
    """The `weight` of a key, of which up to `error` may belong to other keys; its `others` since it was entered."""

    weight: int
    error: int
    others: list[int]


class TopTable(Generic[K]):
    """Counts the weight of each key, and `others` numbers beside it; exact for up to `most` keys.

    Beyond that, a new key replaces the lightest and takes over its weight as its own error: the Space Saving algorithm
    (Metwally, Agrawal and El Abbadi, 2005). So every key heavier than the lightest one kept is kept, and no weight is
    too large by more than its error. `distinct` is the number of keys entered.
    """

    def __init__(self, others: int = 0, *, most: int = MAX_COUNTED) -> None:
        self._others = others
        self._most = most
        self._counted: dict[K, Counted] = {}
        self._lightest: list[tuple[int, int, K]] = []
        """A heap whose weights may be outdated; built when the table is full."""
        self.distinct = 0

    @property
    def is_exact(self) -> bool:
        return self.distinct <= self._most

    def add(self, key: K, weight: int, *others: int) -> None:
        """Add to the counts of a key."""
        counted = self._counted.get(key)
        if counted is None:
            counted = self._entered(key)
        counted.weight += weight
        for place, other in enumerate(others):
            counted.others[place] += other

    def top(self, count: int) -> list[tuple[K, Counted]]:
        """Return the heaviest keys, the heaviest first."""
        return sorted(self._counted.items(), key=lambda each: -each[1].weight)[:count]

    def __len__(self) -> int:
        return len(self._counted)

    def _entered(self, key: K) -> Counted:
        self.distinct += 1
        is_full = len(self._counted) >= self._most
        floor = self._give_up() if is_full else 0
        counted = self._counted[key] = Counted(floor, floor, [0] * self._others)
        if is_full:
            heappush(self._lightest, (floor, self.distinct, key))
        return counted

    def _give_up(self) -> int:
        """Remove the lightest key, and return its weight."""
        counted, lightest = self._counted, self._lightest
        if not lightest:
            lightest += [(each.weight, place, key) for place, (key, each) in enumerate(counted.items())]
            heapify(lightest)
        while True:
            weight, number, key = lightest[0]
            if counted[key].weight == weight:
                heappop(lightest)
                del counted[key]
                return weight
            heapreplace(lightest, (counted[key].weight, number, key))
