"""How long commands took: a distribution whose size does not grow with what it counts."""

from __future__ import annotations

from math import exp, log

STEP = log(1.02)
"""The least difference between the logarithms of latencies that are counted apart: quantiles are exact to 1 %."""


class Latencies:
    """Counts latencies of one kind, in nanoseconds. At most some 2,000 numbers, for all that 64 bits can hold."""

    __slots__ = ("_buckets", "count")

    def __init__(self) -> None:
        self.count = 0
        self._buckets: dict[int, int] = {}

    def add(self, ns: int, count: int = 1) -> None:
        """So many took that long."""
        bucket = round(log(ns) / STEP) if ns > 0 else -1
        self._buckets[bucket] = self._buckets.get(bucket, 0) + count
        self.count += count

    def quantile(self, share: float) -> float | None:
        """In seconds: how long that share of all took, at most."""
        rest = share * self.count
        for bucket in sorted(self._buckets):
            rest -= self._buckets[bucket]
            if rest <= 0:
                return exp(bucket * STEP) / 1e9 if bucket >= 0 else 0.0
        return None
