"""Histogram of latencies from a microsecond to hours, in buckets so narrow that a bound is at most 12% too high."""

from __future__ import annotations

import math
from collections import Counter

BUCKETS_A_DECADE = 20

LEAST = 1e-6
"""Upper bound of the first bucket, in seconds."""

LAST = 10 * BUCKETS_A_DECADE
"""Number of the last bucket, which holds 10,000 seconds and more."""


class LatencyCounts:
    """Number of latencies in each bucket; only buckets with latencies take memory."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def add(self, seconds: float) -> None:
        """Count one latency."""
        bucket = math.ceil(BUCKETS_A_DECADE * math.log10(seconds / LEAST)) if seconds > LEAST else 0
        self.counts[min(bucket, LAST)] += 1

    def absorb(self, other: LatencyCounts) -> None:
        """Add the counts of another histogram."""
        self.counts.update(other.counts)

    def percentile(self, share: float) -> float | None:
        """Return the upper bound in seconds of the bucket in which a percentile lies; `None` without latencies."""
        below, wanted = 0, share * self.counts.total()
        for bucket in sorted(self.counts):
            below += self.counts[bucket]
            if below >= wanted:
                return float(LEAST * 10 ** (bucket / BUCKETS_A_DECADE))
        return None
