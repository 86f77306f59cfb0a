"""The history of all objects of a broker, in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from amqproxy.management.statistics.series import COARSE_SECONDS, INTERVAL, OF_A_DAY, USUAL, Series

MOST_SAMPLES = 200_000
"""Samples of all objects together, about 35 MiB; beyond them, a series that gets one drops its oldest."""

MOST_SERIES = 100_000
"""Objects with a history; beyond them, those that have not changed for longest are forgotten.

The broker does not tell which objects are gone: their last numbers stay here until then.
"""

LENGTHS: Mapping[str, int] = {"queues": 2, "vhosts": 2}
"""Leading numbers that may decrease, by kind: ready and unacknowledged messages. All others are counts."""

OF_THE_WHOLE = frozenset({"overview", "vhosts"})
"""Kinds whose history is of a day."""

Key = tuple[str, str, str]
"""Kind, virtual host and name of an object."""

NOTHING = Series(())
"""The series of an object that never changed."""


class History:
    """The series of all objects that changed since the first sample."""

    def __init__(self) -> None:
        self._series: dict[Key, Series] = {}
        """Objects in the order of their changes."""
        self._resting: dict[Key, Series] = {}
        """Objects that have not changed for `COARSE_SECONDS`; most of them have no sample, but their last numbers."""
        self._samples = 0
        self.last = 0
        """Time of the last sample, in seconds since the epoch: a multiple of `INTERVAL`."""
        self.previous = 0
        self._began = self._ended = 0.0
        self._time = 0
        self.seconds = float(INTERVAL)
        """Seconds between the last two samples."""

    def __len__(self) -> int:
        return len(self._series) + len(self._resting)

    @property
    def samples(self) -> int:
        """Number of samples of all series."""
        return self._samples

    def begin(self, now: float, moment: float | None = None) -> None:
        """Begin the sample at `now`, in seconds since the epoch; at this moment of a clock that is never set back."""
        self._began = now if moment is None else moment
        self._time = max(round(now / INTERVAL) * INTERVAL, self.last + INTERVAL)
        self._rest_idle()

    def end(self) -> None:
        """Show the sample, which is complete."""
        self.seconds = self._began - self._ended if 0 < self._ended < self._began else float(INTERVAL)
        self._ended = self._began
        self.previous, self.last = self.last, self._time

    def add(self, key: Key, numbers: Sequence[int], *, is_new: bool) -> None:
        """Add the numbers of an object; counts before its first one make a rate if it `is_new`."""
        series = self._series.pop(key, None) or self._resting.pop(key, None)
        if series is not None and _is_another(key[0], series.numbers, numbers):
            self._samples -= len(series)
            series, is_new = None, True
        if series is None:
            before = (0,) * len(numbers) if is_new else numbers
            series = Series(before, OF_A_DAY if key[0] in OF_THE_WHOLE else USUAL)
        old = len(series)
        series.add(self._time, numbers)
        if self._samples >= MOST_SAMPLES:
            series.drop_oldest()
        self._samples += len(series) - old
        self._series[key] = series  # at the end: in the order of their changes

    def _rest_idle(self) -> None:
        """Drop the samples of objects that did not change for an hour, and forget objects beyond the bound."""
        while self._series:
            key = next(iter(self._series))
            series = self._series[key]
            if series.last > self._time - COARSE_SECONDS:
                break
            self._resting[key] = self._series.pop(key)
            if key[0] not in OF_THE_WHOLE:
                self._samples -= len(series)
                series.rest()
        while len(self) > MOST_SERIES:
            found = self._resting or self._series
            self._samples -= len(found.pop(next(iter(found))))

    def of(self, kind: str, vhost: str, name: str) -> Series:
        """Return the series of an object."""
        key = (kind, vhost, name)
        return self._series.get(key) or self._resting.get(key, NOTHING)


def _is_another(kind: str, old: Sequence[int], new: Sequence[int]) -> bool:
    """Whether numbers are of another object of the same name: a count has decreased."""
    first = LENGTHS.get(kind, 0)
    return any(later < earlier for earlier, later in zip(old[first:], new[first:], strict=True))
