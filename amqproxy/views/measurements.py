"""Distributions of durations and sizes."""

from __future__ import annotations

from collections.abc import Sequence

from amqproxy.taps.metering.distribution import Distribution

PRECISION = 0.1
"""Maximum relative error of a percentile."""

_FINE_STEPS = [1 + n / 10 for n in range(10)] + [2 + n / 5 for n in range(15)] + [5 + n / 2 for n in range(10)]


def _decimals(steps: Sequence[float]) -> list[float]:
    """Return the steps scaled by each power of ten, from a microsecond to a day."""
    return [0.0, *(float(f"{step:.1f}e{power}") for power in range(-6, 5) for step in steps), 1e5]


SECONDS, _FINE_SECONDS = _decimals((1, 2, 5)), _decimals(_FINE_STEPS)
"""Bounds of the intervals of seconds that are shown, and of the finer ones that are counted."""

SHORT_INTERVALS = _decimals((1, 1.3, 1.6, 2, 2.6, 3.2, 4, 5, 6.5, 8))
"""Bounds of intervals of seconds of about equal relative length, as a chart shows them."""

BYTES = [0.0, *(4.0**power for power in range(17))]
_FINE_BYTES = [0.0, *(2.0**power * (1 + n / 16) for power in range(32) for n in range(16)), 2.0**32]


class Measurements:
    """Count, minimum, maximum, mean, percentiles and intervals of seconds, or of bytes if `is_bytes`."""

    def __init__(self, *, is_bytes: bool = False) -> None:
        self._fine = Distribution(_FINE_BYTES if is_bytes else _FINE_SECONDS)
        self._shown = BYTES if is_bytes else SECONDS
        self.count = 0
        self.least = float("inf")
        self.most = 0.0

    def observe(self, value: float, count: int = 1) -> None:
        """Count a value `count` times."""
        value = max(value, 0.0)
        self._fine.observe(value, count)
        self.count += count
        self.least = min(self.least, value)
        self.most = max(self.most, value)

    @property
    def total(self) -> float:
        return self._fine.total

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """Return the value that `percent` of all values do not exceed, to within `PRECISION`."""
        wanted = self.count * percent / 100
        seen, before = 0, 0.0
        bounds, counts = self._fine.bounds, self._fine.counts
        for place, count in enumerate(counts):
            bound = bounds[place] if place < len(bounds) else self.most
            if count and seen + count >= wanted:
                within = before + (bound - before) * (wanted - seen) / count
                return min(max(within, self.least), self.most)
            seen += count
            before = bound
        return self.most

    def intervals(self, shown: Sequence[float] = ()) -> list[tuple[float | None, int]]:
        """Return each bound with the number of values up to it and above the previous one.

        The list extends from the first interval used to the last. None is the bound of values above all bounds. Other
        bounds may be given, if they are among the fine ones.
        """
        shown = shown or self._shown
        counts = [0] * (len(shown) + 1)
        place = 0
        bounds = self._fine.bounds
        for fine, count in enumerate(self._fine.counts):
            bound = bounds[fine] if fine < len(bounds) else None
            while place < len(shown) and (bound is None or bound > shown[place]):
                place += 1
            counts[place] += count
        found = list(zip([*shown, None], counts, strict=True))
        used = [place for place, count in enumerate(counts) if count]
        return found[used[0] : used[-1] + 1] if used else []
