"""Where a frame begins, in bytes that were joined in the middle or have a hole before them.

Of the bits of a header more than 50 are known, so that one alone is seldom a mistake; that frames follow each other
makes sure of it.
"""

from __future__ import annotations

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
