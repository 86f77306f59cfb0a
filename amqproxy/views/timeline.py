"""Amounts over time, at a resolution that adapts to the whole span."""

from __future__ import annotations

MAX_INTERVALS = 120
"""Maximum number of intervals; beyond that, intervals become longer."""

SHORTEST_NS = 1_000_000


class Timeline:
    """Sums of `series` numbers per time interval; intervals begin as milliseconds and grow to 2, 10, 20, 100 … of them.

    `interval_ns` is the length of an interval; they begin at multiples of it.
    """

    def __init__(self, series: int) -> None:
        self.interval_ns = SHORTEST_NS
        self._series = series
        self._intervals: dict[int, list[int]] = {}
        self._first = self._last = 0
        self._grows_by = 2

    def add(self, ts_ns: int, series: int, amount: int = 1) -> None:
        """Add an amount to a series at a point in time."""
        place = ts_ns // self.interval_ns
        interval = self._intervals.get(place)
        if interval is None:
            interval = self._entered(ts_ns)
        interval[series] += amount

    def amounts(self) -> tuple[int, list[list[int]]]:
        """Return the start of the first interval, and the amounts of each series, one per interval."""
        if not self._intervals:
            return 0, [[] for _ in range(self._series)]
        nothing = [0] * self._series
        places = range(self._first, self._last + 1)
        rows = [self._intervals.get(place, nothing) for place in places]
        return self._first * self.interval_ns, [list(each) for each in zip(*rows, strict=True)]

    def _entered(self, ts_ns: int) -> list[int]:
        """Return the interval of a time, after lengthening intervals until it fits."""
        place = ts_ns // self.interval_ns
        if not self._intervals:
            self._first = self._last = place
        while max(place, self._last) - min(place, self._first) >= MAX_INTERVALS:
            self._lengthen()
            place = ts_ns // self.interval_ns
        self._first, self._last = min(self._first, place), max(self._last, place)
        return self._intervals.setdefault(place, [0] * self._series)

    def _lengthen(self) -> None:
        factor = self._grows_by
        self._grows_by = 7 - factor  # 2 and 5 alternately
        self.interval_ns *= factor
        longer: dict[int, list[int]] = {}
        for place, amounts in self._intervals.items():
            into = longer.setdefault(place // factor, [0] * self._series)
            for series, amount in enumerate(amounts):
                into[series] += amount
        self._intervals = longer
        self._first //= factor
        self._last //= factor
