"""The history of all objects of a broker, in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from amqproxy.management.statistics.series import COARSE_SECONDS, INTERVAL, OF_A_DAY, USUAL, Series

MOST_SAMPLES = 200_000
"""Samples of all objects together, about 35 MiB; beyond them, a series that gets one drops its oldest."""

MOST_SERIES = 100_000
"""Objects with a history; beyond them, those that have not changed for longest are forgotten."""

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
        self._samples = 0
        self.last = 0
        """Time of the last sample, in seconds since the epoch: a multiple of `INTERVAL`."""
        self.previous = 0
        self._began = self._ended = 0.0
        self._time = 0
        self.seconds = float(INTERVAL)
        """Seconds between the last two samples."""

    def __len__(self) -> int:
        return len(self._series)

    @property
    def samples(self) -> int:
        """Number of samples of all series."""
        return self._samples

    def begin(self, now: float) -> None:
        """Begin the sample at `now`, in seconds since the epoch."""
        self._began = now
        self._time = max(round(now / INTERVAL) * INTERVAL, self.last + INTERVAL)
        self._forget_idle()

    def end(self) -> None:
        """Show the sample, which is complete."""
        self.seconds = self._began - self._ended if self._ended else float(INTERVAL)
        self._ended = self._began
        self.previous, self.last = self.last, self._time

    def add(self, key: Key, numbers: Sequence[int], *, is_new: bool) -> None:
        """Add the numbers of an object; counts before its first one make a rate if it `is_new`."""
        series = self._series.pop(key, None)
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

    def _forget_idle(self) -> None:
        """Forget objects that did not change for an hour, most of which are gone, and those beyond the bound."""
        while self._series:
            key = next(iter(self._series))
            series = self._series[key]
            if len(self._series) <= MOST_SERIES and series.last > self._time - COARSE_SECONDS:
                return
            self._samples -= len(series)
            del self._series[key]

    def of(self, kind: str, vhost: str, name: str) -> Series:
        """Return the series of an object."""
        return self._series.get((kind, vhost, name), NOTHING)


def _is_another(kind: str, old: Sequence[int], new: Sequence[int]) -> bool:
    """Whether numbers are of another object of the same name: a count has decreased."""
    first = LENGTHS.get(kind, 0)
    return any(later < earlier for earlier, later in zip(old[first:], new[first:], strict=True))
