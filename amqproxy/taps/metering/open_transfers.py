"""The transfers of one direction of a session that are open, and since when: as runs of positions."""

from __future__ import annotations

from bisect import bisect_left
from operator import itemgetter

MAX_RUNS = 1024
"""Runs of one direction of a session; beyond it, the oldest two become one whose time is not known, or if there is a
hole between them, the oldest is forgotten."""

Run = tuple[int, int, float | None]
"""The first position, the last, and the time in seconds, if it is known."""


class OpenTransfers:
    """Positions are as in `amqp010.command_ids`: ids that do not roll over. `count` is how many are open."""

    __slots__ = ("_runs", "count")

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self.count = 0

    def add(self, position: int, now: float) -> int:
        """Open the next one, behind all others: how many had to be forgotten for it.

        One that is not behind all others has been sent again, or under a number that was used: it is not opened.
        """
        runs = self._runs
        if runs and position <= runs[-1][1]:
            return 1
        self.count += 1
        if runs:
            first, last, time = runs[-1]
            if last + 1 == position and time == now:
                runs[-1] = first, position, time
                return 0
        runs.append((position, position, now))
        return self._bound()

    def settle(self, first: int, last: int) -> list[tuple[int, float | None]]:
        """Close those in a range: how many, since when each."""
        runs = self._runs
        if last < first:
            return []
        place = bisect_left(runs, first, key=itemgetter(1))
        found: list[tuple[int, float | None]] = []
        while place < len(runs) and runs[place][0] <= last:
            begin, end, time = runs[place]
            low, high = max(begin, first), min(end, last)
            found.append((high - low + 1, time))
            self.count -= high - low + 1
            left: list[Run] = [(begin, low - 1, time)] if begin < low else []
            if high < end:
                left.append((high + 1, end, time))
            runs[place : place + 1] = left
            place += len(left)
        return found

    def forget_excess(self) -> int:
        """Keep to the bound after holes were made: how many had to be forgotten."""
        return self._bound()

    def _bound(self) -> int:
        runs, forgotten = self._runs, 0
        while len(runs) > MAX_RUNS:
            (first, last, _), (other_first, other_last, _) = runs[:2]
            if last + 1 == other_first:
                runs[:2] = [(first, other_last, None)]
            else:
                del runs[0]
                forgotten += last - first + 1
        self.count -= forgotten
        return forgotten
