"""Search for a frame boundary in bytes that were joined in the middle or follow a gap.

More than 50 bits of a header are fixed, so that even one match is seldom wrong; consecutive headers make it certain.
"""

from __future__ import annotations

from heapq import heappop, heappush

from amqproxy.amqp010.frame import BODY, CONTROL, FIRST_SEGMENT, LAST_SEGMENT, MAX_FRAME, OVERHEAD

NEEDED = 2
"""Number of consecutive headers that make a boundary certain."""

_ZEROS = bytes(4)

_SEGMENT_FLAGS = (
    (FIRST_SEGMENT | LAST_SEGMENT,),
    (FIRST_SEGMENT, FIRST_SEGMENT | LAST_SEGMENT),
    (0, LAST_SEGMENT),
    (LAST_SEGMENT,),
)
"""Possible positions in an assembly for each type of segment."""


def frame_size_at(data: bytes, place: int, frame_max: int = MAX_FRAME) -> int:
    """Return the size of the frame whose complete header is at `place`; 0 if it is not a header."""
    flags, kind, high, low, reserved, track = data[place : place + 6]
    size = high << 8 | low
    if reserved or data[place + 8 : place + OVERHEAD] != _ZEROS or not OVERHEAD <= size <= frame_max:
        return 0
    if kind > BODY or track != (kind != CONTROL) or flags & 0xFC not in _SEGMENT_FLAGS[kind]:
        return 0
    return size


def _follow(data: bytes, place: int) -> int:
    """Return the number of consecutive headers from `place` on, at most `NEEDED`; 0 if one is followed by anything
    else.
    """
    found = 0
    while found < NEEDED and place + OVERHEAD <= len(data):
        size = frame_size_at(data, place)
        if not size:
            return 0
        found += 1
        place += size
    return found


class FrameSearch:
    """Incremental search for the first place where a frame certainly begins, which searches each byte only once.

    It is certain if `NEEDED` consecutive headers follow.

    `held` are the bytes that are still needed, which are at `offset`.
    """

    __slots__ = ("_first", "_searched", "_waiting", "held", "offset")

    def __init__(self, offset: int) -> None:
        self.held = b""
        self.offset = offset
        self._searched = offset
        self._waiting: list[tuple[int, int]] = []
        """End of a possible header's frame, where the next header is expected, and its start."""
        self._first: int | None = None
        """First of these candidates."""

    def feed(self, data: bytes) -> bool:
        """Process the next bytes; return whether the held bytes certainly begin with a frame."""
        held = self.held = self.held + data
        offset = self.offset
        sure = self._resolved(held)
        zeros = held.find(_ZEROS, self._searched - offset + 8)
        while zeros >= 0:
            place = zeros - 8
            found = _follow(held, place)
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
        """Return the first candidate that has become certain."""
        sure: int | None = None
        waiting = self._waiting
        end = self.offset + len(held)
        is_first = False
        while waiting and waiting[0][0] <= end:
            place = heappop(waiting)[1]
            is_first = is_first or place == self._first
            if _follow(held, place - self.offset) >= NEEDED:
                sure = place if sure is None else min(sure, place)
        if is_first:
            self._first = min([place for _, place in waiting], default=None)
        return sure

    def _drop(self, place: int) -> None:
        """Drop the bytes before a place."""
        self.held = self.held[place - self.offset :]
        self.offset = place
