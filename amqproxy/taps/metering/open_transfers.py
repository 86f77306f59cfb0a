"""The transfers of one direction of a session that are open, and since when: as runs of positions."""

from __future__ import annotations

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy import _cython as cython

MAX_RUNS = 1024
"""Runs of one direction of a session; beyond it, the oldest two become one whose time is not known, or if there is a
hole between them, the oldest is forgotten."""


@cython.final
@cython.no_gc
@cython.freelist(64)
@cython.cclass
class TimedRun:
    """Positions that are open from the first to the last, and since when, in seconds, if that is known."""

    def __init__(self, first: cython.longlong, last: cython.longlong, time: cython.double, is_timed: bool) -> None:
        self.first = first
        self.last = last
        self.time = time
        self.is_timed = is_timed


@cython.final
@cython.cclass
class OpenTransfers:
    """Positions are as in `amqp010.command_ids`: ids that do not roll over. `count` is how many are open."""

    def __init__(self) -> None:
        self._runs: list[TimedRun] = []
        self.count = 0

    def add(self, position: cython.longlong, now: cython.double) -> cython.Py_ssize_t:
        """Open the next one, behind all others: how many had to be forgotten for it.

        One that is not behind all others has been sent again, or under a number that was used: it is not opened.
        """
        runs: list[TimedRun] = self._runs
        count: cython.Py_ssize_t = len(runs)
        run: TimedRun
        if count:
            run = runs[count - 1]
            if position <= run.last:
                return 1
            self.count += 1
            if run.last + 1 == position and run.is_timed and run.time == now:
                run.last = position
                return 0
        else:
            self.count += 1
        runs.append(TimedRun(position, position, now, True))
        return self._bound()

    def settle(self, first: cython.longlong, last: cython.longlong) -> list[tuple[int, float | None]]:
        """Close those in a range: how many, since when each."""
        runs: list[TimedRun] = self._runs
        found: list[tuple[int, float | None]] = []
        place: cython.Py_ssize_t = self._first_from(first)
        begin: cython.longlong
        end: cython.longlong
        run: TimedRun
        if last < first:
            return found
        while place < len(runs):
            run = runs[place]
            if run.first > last:
                break
            begin = max(run.first, first)
            end = min(run.last, last)
            found.append((end - begin + 1, run.time if run.is_timed else None))
            self.count -= end - begin + 1
            if begin == run.first and end == run.last:
                del runs[place]
                continue
            if begin == run.first:
                run.first = end + 1
            else:
                if end < run.last:
                    runs.insert(place + 1, TimedRun(end + 1, run.last, run.time, run.is_timed))
                run.last = begin - 1
            place += 1
        return found

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _first_from(self, position: cython.longlong) -> cython.Py_ssize_t:
        """The place of the first run that ends at a position or behind it."""
        runs: list[TimedRun] = self._runs
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = len(runs)
        middle: cython.Py_ssize_t = 0  # mostly it is the oldest
        run: TimedRun
        while low < high:
            run = runs[middle]
            if run.last < position:
                low = middle + 1
            else:
                high = middle
            middle = (low + high) >> 1
        return low

    def forget_excess(self) -> cython.Py_ssize_t:
        """Keep to the bound after holes were made: how many had to be forgotten."""
        return self._bound()

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _bound(self) -> cython.longlong:
        runs: list[TimedRun] = self._runs
        forgotten: cython.longlong = 0
        oldest: TimedRun
        other: TimedRun
        while len(runs) > MAX_RUNS:
            oldest = runs[0]
            other = runs[1]
            if oldest.last + 1 == other.first:
                other.first = oldest.first
                other.is_timed = False
            else:
                forgotten += oldest.last - oldest.first + 1
            del runs[0]
        self.count -= forgotten
        return forgotten
