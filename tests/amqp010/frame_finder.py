"""The boundary of frames in bytes that are all there: what `FrameSearch` has to find in pieces."""

from __future__ import annotations

from amqproxy.amqp010 import boundary
from amqproxy.amqp010.boundary import NEEDED
from amqproxy.amqp010.frame import OVERHEAD

_ZEROS = bytes(4)


def find_frame(data: bytes, start: int = 0) -> tuple[int, bool]:
    """Return the first place from `start` on where a frame may begin, and whether that is certain.

    It is certain if `NEEDED` consecutive headers follow. Without a match, the place is the first where a frame may
    begin once more bytes are received; earlier bytes are not needed then.
    """
    possible = max(start, len(data) - OVERHEAD + 1)
    zeros = data.find(_ZEROS, start + 8)
    while zeros >= 0:
        place = zeros - 8
        found = boundary._follow(data, place)
        if found >= NEEDED:
            return place, True
        if found:
            possible = min(possible, place)
        zeros = data.find(_ZEROS, zeros + 1)
    return possible, False
