"""Open transfers of one direction of a session, with the time of each, as runs of positions."""

from __future__ import annotations

from amqproxy.taps.metering.distribution import Distribution
from amqproxy.taps.trace.budget import Budget
from amqproxy.taps.trace.open_tags import Span

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

MAX_RUNS = 1024
"""Limit on the runs of one direction of a session.

Beyond it, the oldest two become one whose time is unknown; if there is a gap between them, the oldest is forgotten."""

MAX_RUNS_OF_CONNECTION = 32_768
"""Limit on the runs of all sessions of a connection, some 2 MiB.

Beyond it, a direction that needs another run gives up its oldest, but never its only one."""


@cython.final
@cython.no_gc
@cython.freelist(64)
@cython.cclass
class TimedRun:
    """Open positions from `first` to `last`, and the time in seconds at which they were opened, if it is known."""

    def __init__(self, first: cython.longlong, last: cython.longlong, time: cython.double, is_timed: bool) -> None:
        self.first = first
        self.last = last
        self.time = time
        self.is_timed = is_timed


@cython.final
@cython.cclass
class OpenTransfers:
    """Runs of `count` open positions, which are as in `amqp010.command_ids`: ids that do not roll over.

    `room` is for the runs of all sessions of the connection; `untimed` counts the positions settled without a latency.
    It `has_forgotten` open positions once there were too many runs.
    """

    def __init__(self, room: Budget) -> None:
        self._runs: list[TimedRun] = []
        self._room = room
        self.count = 0
        self.untimed = 0
        self.has_forgotten = False

    def add(self, first: cython.longlong, now: cython.double, count: cython.longlong = 1) -> None:
        """Open `count` positions from `first`, which follow all others.

        Positions that do not follow all others were sent again, or under a used number: they are not opened.
        """
        runs: list[TimedRun] = self._runs
        last: cython.longlong = first + count - 1
        run: TimedRun
        if runs:
            run = runs[len(runs) - 1]
            first = max(first, run.last + 1)
            if last < first:
                return
            if run.last + 1 == first and run.is_timed and run.time == now:
                run.last = last
                self.count += last - first + 1
                return
        self.count += last - first + 1
        runs.append(TimedRun(first, last, now, True))
        self._room.give(-1)
        self._bound()

    def settle(
        self, first: cython.longlong, last: cython.longlong, now: cython.double, seconds: Distribution
    ) -> cython.Py_ssize_t:
        """Close the open positions in a range, and return their number. Each one's latency is observed in `seconds`."""
        runs: list[TimedRun] = self._runs
        place: cython.Py_ssize_t
        begin: cython.longlong
        end: cython.longlong
        settled: cython.longlong = 0
        has_split: cython.bint = False
        run: TimedRun
        if last < first or not runs:
            return 0
        place = self._first_from(first)
        while place < len(runs):
            run = runs[place]
            if run.first > last:
                break
            begin = max(run.first, first)
            end = min(run.last, last)
            settled += end - begin + 1
            if run.is_timed:
                seconds.observe(max(0.0, now - run.time), end - begin + 1)
            else:
                self.untimed += end - begin + 1
            if begin == run.first and end == run.last:
                del runs[place]
                self._room.give(1)
                continue
            if begin == run.first:
                run.first = end + 1
            else:
                if end < run.last:
                    runs.insert(place + 1, TimedRun(end + 1, run.last, run.time, run.is_timed))
                    self._room.give(-1)
                    has_split = True
                run.last = begin - 1
            place += 1
        self.count -= settled
        if has_split:
            self._bound()
        return settled

    def clear(self) -> None:
        """Forget all runs, since the session has ended."""
        self._room.give(len(self._runs))
        self._runs.clear()
        self.count = 0

    def spans(self, most: cython.Py_ssize_t, offset_ns: cython.longlong, consumer_tag: str | None) -> tuple[Span, ...]:
        """Return the newest runs, `most` at most, oldest first, without those whose time is unknown.

        `offset_ns` is added to the time of each.
        """
        run: TimedRun
        found: list[Span] = []
        for run in self._runs[max(0, len(self._runs) - most) :]:
            if run.is_timed:
                found.append(Span(run.first, run.last, offset_ns + int(run.time * 1e9), consumer_tag))
        return tuple(found)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _first_from(self, position: cython.longlong) -> cython.Py_ssize_t:
        """Return the index of the first run that ends at a position or after it."""
        runs: list[TimedRun] = self._runs
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = len(runs)
        middle: cython.Py_ssize_t = 0  # mostly the oldest run
        run: TimedRun
        while low < high:
            run = runs[middle]
            if run.last < position:
                low = middle + 1
            else:
                high = middle
            middle = (low + high) >> 1
        return low

    @cython.cfunc
    def _bound(self) -> object:
        """Merge or forget the oldest runs until both limits are kept."""
        runs: list[TimedRun] = self._runs
        oldest: TimedRun
        other: TimedRun
        while len(runs) > MAX_RUNS or (self._room.left < 0 and len(runs) > 1):
            oldest = runs[0]
            other = runs[1]
            if oldest.last + 1 == other.first:
                other.first = oldest.first
                other.is_timed = False
            else:
                self.count -= oldest.last - oldest.first + 1
                self.has_forgotten = True
            del runs[0]
            self._room.give(1)
        return None
