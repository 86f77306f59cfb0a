"""Where a frame begins, in bytes that were joined in the middle or have a hole before them.

Of the bits of a header more than 50 are known, so that one alone is seldom a mistake; that frames follow each other
makes sure of it.
"""

from __future__ import annotations

from heapq import heappop, heappush

from amqproxy.amqp010.frame import BODY, CONTROL, FIRST_SEGMENT, LAST_SEGMENT, MAX_FRAME, OVERHEAD

NEEDED = 2
"""How many headers in a row make sure of a boundary."""

_ZEROS = bytes(4)

_SEGMENT_FLAGS = (
    (FIRST_SEGMENT | LAST_SEGMENT,),
    (FIRST_SEGMENT, FIRST_SEGMENT | LAST_SEGMENT),
    (0, LAST_SEGMENT),
    (LAST_SEGMENT,),
)
"""For each type of segment where it can be in its assembly."""


def frame_size_at(data: bytes, place: int, frame_max: int = MAX_FRAME) -> int:
    """The bytes of the frame whose header, all of which is there, lies at a place; 0 if that is no header."""
    flags, kind, high, low, reserved, track = data[place : place + 6]
    size = high << 8 | low
    if reserved or data[place + 8 : place + OVERHEAD] != _ZEROS or not OVERHEAD <= size <= frame_max:
        return 0
    if kind > BODY or track != (kind != CONTROL) or flags & 0xFC not in _SEGMENT_FLAGS[kind]:
        return 0
    return size


def find_frame(data: bytes, start: int = 0, frame_max: int = MAX_FRAME) -> tuple[int, bool]:
    """The first place from `start` on where a frame begins, and whether that is sure.

    It is if `NEEDED` headers follow each other from there. Where there is no such place, it is the first from which
    they may once more bytes have come; none of those before it are needed then.
    """
    possible = max(start, len(data) - OVERHEAD + 1)
    zeros = data.find(_ZEROS, start + 8)
    while zeros >= 0:
        place = zeros - 8
        found = _follow(data, place, frame_max)
        if found >= NEEDED:
            return place, True
        if found:
            possible = min(possible, place)
        zeros = data.find(_ZEROS, zeros + 1)
    return possible, False


def _follow(data: bytes, place: int, frame_max: int) -> int:
    """How many headers follow each other from a place on, no more than are needed; 0 if what follows one is none."""
    found = 0
    while found < NEEDED and place + OVERHEAD <= len(data):
        size = frame_size_at(data, place, frame_max)
        if not size:
            return 0
        found += 1
        place += size
    return found


class FrameSearch:
    """Looks for a frame as `find_frame` does, in bytes that come in pieces, each of which is searched only once.

    `held` are the bytes that are needed yet, which lie at `offset`.
    """

    __slots__ = ("_first", "_searched", "_waiting", "held", "offset")

    def __init__(self, offset: int) -> None:
        self.held = b""
        self.offset = offset
        self._searched = offset
        self._waiting: list[tuple[int, int]] = []
        """Where the header ends that is to follow a possible one, and where that begins."""
        self._first: int | None = None
        """The first of those that wait."""

    def feed(self, data: bytes) -> bool:
        """Take the bytes that come next: do those that are held now surely begin with a frame?"""
        held = self.held = self.held + data
        offset = self.offset
        sure = self._resolved(held)
        zeros = held.find(_ZEROS, self._searched - offset + 8)
        while zeros >= 0:
            place = zeros - 8
            found = _follow(held, place, MAX_FRAME)
            if found >= NEEDED:
                sure = offset + place if sure is None else min(sure, offset + place)
                break
            if found:
                place += offset
                heappush(self._waiting, (place + frame_size_at(held, place - offset) + OVERHEAD, place))
                self._first = place if self._first is None else min(self._first, place)
            zeros = held.find(_ZEROS, zeros + 1)
        end = offset + len(held)
        self._searched = max(self._searched, end - OVERHEAD + 1)
        if sure is not None:
            self._drop(sure)
            return True
        self._drop(self._searched if self._first is None else self._first)
        return False

    def _resolved(self, held: bytes) -> int | None:
        """The first place that was possible and is sure now."""
        sure: int | None = None
        waiting = self._waiting
        end = self.offset + len(held)
        is_first = False
        while waiting and waiting[0][0] <= end:
            place = heappop(waiting)[1]
            is_first = is_first or place == self._first
            if _follow(held, place - self.offset, MAX_FRAME) >= NEEDED:
                sure = place if sure is None else min(sure, place)
        if is_first:
            self._first = min([place for _, place in waiting], default=None)
        return sure

    def _drop(self, place: int) -> None:
        """The bytes before a place are not needed."""
        self.held = self.held[place - self.offset :]
        self.offset = place
