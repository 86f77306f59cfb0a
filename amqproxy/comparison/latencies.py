"""A latency distribution of bounded size."""

from __future__ import annotations

from math import exp, log

STEP = log(1.02)
"""Width of a bucket, as a difference of logarithms of latencies: quantiles are exact to 1 %."""


class Latencies:
    """Histogram of latencies of one kind, in nanoseconds, with at most some 2,000 buckets for all of 64 bits."""

    __slots__ = ("_buckets", "count")

    def __init__(self) -> None:
        self.count = 0
        self._buckets: dict[int, int] = {}

    def add(self, ns: int, count: int = 1) -> None:
        """Add `count` latencies of the same length."""
        bucket = round(log(ns) / STEP) if ns > 0 else -1
        self._buckets[bucket] = self._buckets.get(bucket, 0) + count
        self.count += count

    def quantile(self, share: float) -> float | None:
        """Return the latency in seconds that a share of all did not exceed; None without any."""
        rest = share * self.count
        for bucket in sorted(self._buckets):
            rest -= self._buckets[bucket]
            if rest <= 0:
                return exp(bucket * STEP) / 1e9 if bucket >= 0 else 0.0
        return None
