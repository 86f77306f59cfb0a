"""Positions of the proxy's commands among those of one peer, to translate command numbers between the legs.

The sender counts its own commands only: *source* positions. The receiver also counts the proxy's: *target* positions.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class CommandInsertions:
    """Insertions in one direction of a session. `places` are the target positions of the proxy's, ascending."""

    __slots__ = ("_before", "_floor", "_forgotten", "places")

    def __init__(self) -> None:
        self.places: list[int] = []
        self._before: list[int] = []
        self._forgotten = self._floor = 0

    def __bool__(self) -> bool:
        return bool(self._forgotten or self.places)

    def __len__(self) -> int:
        return len(self.places)

    def add(self, target: int) -> None:
        """Record a command of the proxy at this position, after all commands sent so far."""
        self._before.append(target - len(self.places) - self._forgotten)
        self.places.append(target)

    def forget(self, source: int) -> None:
        """Forget insertions below this source position, to which no peer refers any more."""
        count = bisect_right(self._before, source)
        del self.places[:count]
        del self._before[:count]
        self._forgotten += count
        self._floor = source + self._forgotten

    def to_target(self, source: int) -> int:
        """Return the receiver's position of a command of the sender."""
        return source + self._forgotten + bisect_right(self._before, source)

    def to_sources(self, targets: range) -> Iterator[range]:
        """Yield the source ranges of the sender's commands in a target range, without the proxy's."""
        start = max(targets.start, self._floor)
        first = bisect_left(self.places, start)
        for number in range(first, bisect_left(self.places, targets.stop)):
            place = self.places[number]
            if start < place:
                yield self._sources(range(start, place), number)
            start = place + 1
        if start < targets.stop:
            yield self._sources(range(start, targets.stop), bisect_left(self.places, start))

    def _sources(self, targets: range, before: int) -> range:
        shift = self._forgotten + before
        return range(targets.start - shift, targets.stop - shift)

    def to_targets(self, sources: range, *, with_ours: bool = False) -> Iterator[range]:
        """Yield the target ranges of source commands, leaving out the commands that the proxy inserted.

        If `with_ours`, yield one range that includes the inserted commands in it and directly before it.
        """
        if not sources:
            return
        start, last = self.to_target(sources.start), self.to_target(sources[-1])
        if with_ours:
            number = bisect_left(self.places, start)
            while number and self.places[number - 1] == start - 1:
                number, start = number - 1, start - 1
            yield range(start, last + 1)
            return
        for place in self.places[bisect_left(self.places, start) : bisect_left(self.places, last)]:
            if start < place:
                yield range(start, place)
            start = place + 1
        yield range(start, last + 1)
