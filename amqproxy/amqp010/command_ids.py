"""A set of commands of one session, as ranges of their positions. Section 3.2.1.

A position is a command id that does not roll over: commands that follow each other have positions that do, and the id
on the wire is the position modulo 2 to the power of 32 (`id_of`, `position_of`).
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
    """The command id on the wire."""
    return position & _MASK


def position_of(command_id: cython.longlong, near: cython.longlong) -> cython.longlong:
    """The position with this command id that is closest to `near`, as RFC 1982 compares serial numbers."""
    return near + ((command_id - near + _HALF) & _MASK) - _HALF


class CommandIds:
    """Positions as ranges that do not touch each other, in their order.

    A session's commands mostly are one range, whatever their number. `count` is how many positions there are.
    """

    __slots__ = ("_starts", "_stops", "count")

    def __init__(self) -> None:
        self.count = 0
        self._starts: list[int] = []
        self._stops: list[int] = []

    @classmethod
    def of(cls, ranges: Iterable[range]) -> CommandIds:
        """All of these, none of which is empty."""
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
        """How many ranges there are."""
        return len(self._starts)

    @property
    def first(self) -> int | None:
        """The lowest position."""
        return self._starts[0] if self._starts else None

    def add(self, ids: range) -> None:
        """Add all of a range that is not empty."""
        self.extend(ids.start, ids.stop)

    def extend(self, start: cython.longlong, stop: cython.longlong) -> None:
        """Add all from `start` on that are before `stop`, which is one at least."""
        starts, stops = self._starts, self._stops
        last: cython.Py_ssize_t = len(stops) - 1
        if last >= 0 and start == stops[last]:  # what follows, which is the usual case
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
        """Remove what there is of a range, and return that."""
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
        """Remove what there is from `start` on before `stop`, and add that to another set."""
        if self._is_only(start, stop):  # the usual case
            self.clear()
            to.extend(start, stop)
            return
        for removed in self.remove(range(start, stop)):
            to.add(removed)

    def _is_only(self, start: cython.longlong, stop: cython.longlong) -> cython.bint:
        """Is this all there is?"""
        return len(self._starts) == 1 and self._starts[0] == start and self._stops[0] == stop

    def has_all(self, ids: range) -> bool:
        """Whether a range is in it as a whole."""
        place = bisect_right(self._starts, ids.start) - 1
        return place >= 0 and ids.stop <= self._stops[place]

    def has_any(self, ids: range) -> bool:
        """Whether anything of a range is in it."""
        return bisect_right(self._stops, ids.start) < bisect_left(self._starts, ids.stop)

    def next_missing(self, position: int) -> int:
        """The first from this position on that is not in it."""
        place = bisect_right(self._starts, position) - 1
        return max(position, self._stops[place]) if place >= 0 else position

    def clear(self) -> None:
        self.count = 0
        self._starts.clear()
        self._stops.clear()
