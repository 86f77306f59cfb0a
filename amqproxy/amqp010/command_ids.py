"""Set of command positions of one session, as ranges (section 3.2.1).

A position is a command id without wrap-around: consecutive commands have consecutive positions, and the id on the wire
is the position modulo 2 to the power of 32 (`id_of`, `position_of`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from amqproxy.amqp010.sequence import BITS

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython


_MASK = (1 << BITS) - 1
_HALF = 1 << (BITS - 1)


def id_of(position: cython.longlong) -> cython.longlong:
    """Return the command id on the wire."""
    return position & _MASK


def position_of(command_id: cython.longlong, near: cython.longlong) -> cython.longlong:
    """Return the position with this command id that is closest to `near`, as RFC 1982 compares serial numbers."""
    return near + ((command_id - near + _HALF) & _MASK) - _HALF


@cython.auto_pickle(True)
@cython.cclass
class CommandIds:
    """Positions as disjoint, non-adjacent ranges in ascending order.

    A session's commands usually form one range, whatever their number. `count` is the number of positions.
    """

    __slots__ = ("_starts", "_stops", "count")

    def __init__(self) -> None:
        self.count = 0
        self._starts: list[int] = []
        self._stops: list[int] = []

    @classmethod
    def of(cls, ranges: Iterable[range]) -> CommandIds:
        """Return the set of these non-empty ranges."""
        made = cls()
        for each in ranges:
            made.add(each)
        return made

    def __iter__(self) -> Iterator[range]:
        return map(range, self._starts, self._stops)

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __contains__(self, position: object) -> bool:
        if not isinstance(position, int):
            return False
        place = bisect_right(self._starts, position) - 1
        return place >= 0 and position < self._stops[place]

    def __repr__(self) -> str:
        return f"<CommandIds {', '.join(f'{each.start}-{each.stop - 1}' for each in self)}>"

    @property
    def ranges(self) -> int:
        """Number of ranges."""
        return len(self._starts)

    @property
    def first(self) -> int | None:
        """Lowest position."""
        return self._starts[0] if self._starts else None

    def add(self, ids: range) -> None:
        """Add a non-empty range."""
        self.extend(ids.start, ids.stop)

    def extend(self, start: cython.longlong, stop: cython.longlong) -> None:
        """Add the positions from `start` up to `stop`, at least one."""
        starts, stops = self._starts, self._stops
        last: cython.Py_ssize_t = len(stops) - 1
        if last >= 0 and start == stops[last]:  # consecutive positions, the usual case
            stops[last] = stop
            self.count += stop - start
            return
        begin, end = bisect_left(stops, start), bisect_right(starts, stop)
        if begin < end:
            start, stop = min(start, starts[begin]), max(stop, stops[end - 1])
            self.count -= sum(stops[begin:end]) - sum(starts[begin:end])
        self.count += stop - start
        starts[begin:end] = [start]
        stops[begin:end] = [stop]

    def remove(self, ids: range) -> list[range]:
        """Remove the positions of a range, and return those that were in the set."""
        starts, stops = self._starts, self._stops
        begin, end = bisect_right(stops, ids.start), bisect_left(starts, ids.stop)
        if begin >= end:
            return []
        removed = [
            range(max(start, ids.start), min(stop, ids.stop))
            for start, stop in zip(starts[begin:end], stops[begin:end], strict=True)
        ]
        before, after = range(starts[begin], ids.start), range(ids.stop, stops[end - 1])
        kept = [each for each in (before, after) if each]
        starts[begin:end] = [each.start for each in kept]
        stops[begin:end] = [each.stop for each in kept]
        self.count -= sum([each.stop - each.start for each in removed])
        return removed

    def move(self, start: cython.longlong, stop: cython.longlong, to: CommandIds) -> None:
        """Move the positions from `start` up to `stop` to another set."""
        if self._is_only(start, stop):  # the usual case
            self.clear()
            to.extend(start, stop)
            return
        for removed in self.remove(range(start, stop)):
            to.add(removed)

    def _is_only(self, start: cython.longlong, stop: cython.longlong) -> cython.bint:
        """Whether the set is exactly this range."""
        return len(self._starts) == 1 and self._starts[0] == start and self._stops[0] == stop

    def has_all(self, ids: range) -> bool:
        """Whether the set contains the whole range."""
        place = bisect_right(self._starts, ids.start) - 1
        return place >= 0 and ids.stop <= self._stops[place]

    def has_any(self, ids: range) -> bool:
        """Whether the set contains any position of the range."""
        return bisect_right(self._stops, ids.start) < bisect_left(self._starts, ids.stop)

    def next_missing(self, position: int) -> int:
        """Return the first position from this one on that is not in the set."""
        place = bisect_right(self._starts, position) - 1
        return max(position, self._stops[place]) if place >= 0 else position

    def clear(self) -> None:
        self.count = 0
        self._starts.clear()
        self._stops.clear()
