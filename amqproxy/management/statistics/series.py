"""The numbers of one object over time: a sample for each change, thinned out as they age."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from struct import pack, unpack

INTERVAL = 5
"""Seconds between two samples, as RabbitMQ's `collect_statistics_interval`."""

FINE_SECONDS = 605
"""Age up to which every sample is kept, as RabbitMQ does."""

COARSE_SECONDS = 3660
"""Age up to which a sample a minute is kept."""

Retention = tuple[tuple[int, int], ...]
"""Ages in seconds, ascending, each with the seconds between two samples of that age."""

USUAL: Retention = ((FINE_SECONDS, INTERVAL), (COARSE_SECONDS, 60))

OF_A_DAY: Retention = (*USUAL, (29_400, 600), (87_000, 1800))
"""RabbitMQ's retention of all objects, and of the whole broker and its virtual hosts."""

THINNED_FROM = 200
"""Further samples from which old ones are thinned out."""

LEAST = 2
"""Samples that a series keeps in any case, for a rate."""


class Series:
    """The numbers of one object; times are in seconds since the epoch, multiples of `INTERVAL`.

    Before its first sample, an object has the numbers `before`. A sample takes about 50 bytes and 8 for each number.
    """

    __slots__ = ("_before", "_most", "_retention", "_times", "_values")

    def __init__(self, before: Sequence[int], retention: Retention = USUAL) -> None:
        self._retention = retention
        self._most = THINNED_FROM
        self._before = _packed(before)
        self._times: list[int] = []
        self._values: list[bytes] = []

    def __len__(self) -> int:
        return len(self._times)

    @property
    def last(self) -> int:
        """Time of the last change; 0 before the first sample."""
        return self._times[-1] if self._times else 0

    @property
    def numbers(self) -> tuple[int, ...]:
        """The last numbers."""
        return _unpacked(self._values[-1] if self._values else self._before)

    def at(self, time: int) -> tuple[int, ...]:
        """Return the numbers at a time."""
        place = bisect_right(self._times, time)
        return _unpacked(self._values[place - 1] if place else self._before)

    def add(self, time: int, numbers: Sequence[int]) -> None:
        """Add a sample, and drop those that are too old."""
        if self._times and self._times[-1] == time:
            self._values[-1] = _packed(numbers)
            return
        self._times.append(time)
        self._values.append(_packed(numbers))
        if len(self._times) >= self._most:
            self._thin_out(time)
            self._most = max(THINNED_FROM, len(self._times) + THINNED_FROM // 10)

    def drop_oldest(self) -> bool:
        """Drop the oldest sample; return False if the series needs all it has."""
        if len(self._times) <= LEAST:
            return False
        del self._times[0]
        self._before = self._values.pop(0)
        return True

    def rest(self) -> None:
        """Drop all samples but keep the last numbers: the object has had them for as long as samples are kept."""
        self._before = _packed(self.numbers)
        self._times = []
        self._values = []

    def _thin_out(self, now: int) -> None:
        times, values = self._times, self._values
        kept = [
            place
            for place, time in enumerate(times)
            if (step := self._step(now - time)) == INTERVAL or (step and times[place + 1] // step != time // step)
        ]
        if kept[0]:
            self._before = values[kept[0] - 1]
        self._times = [times[place] for place in kept]
        self._values = [values[place] for place in kept]

    def _step(self, age: int) -> int:
        """Return the seconds between two samples of an age; 0 if none are kept."""
        return next((step for most, step in self._retention if age < most), 0)


def _packed(numbers: Sequence[int]) -> bytes:
    return pack(f"{len(numbers)}q", *numbers)


def _unpacked(packed: bytes) -> tuple[int, ...]:
    return unpack(f"{len(packed) // 8}q", packed)
