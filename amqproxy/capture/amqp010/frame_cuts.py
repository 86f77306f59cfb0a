"""Places at which bytes of whole 0-10 frames are cut into packets."""

from __future__ import annotations

from collections.abc import Iterator

from amqproxy.amqp010.frame import BODY, OVERHEAD
from amqproxy.amqp010.protocol_header import HEADER, SIZE
from amqproxy.capture.cuts import Cuts

_LEAST = 4


def frame_bounds(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the bounds of frames; a preceding protocol header, and bytes that are not a whole frame, are one piece."""
    start = 0
    if data.startswith(HEADER):
        yield 0, SIZE
        start = SIZE
    while start < len(data):
        size = int.from_bytes(data[start + 2 : start + 4]) if len(data) - start >= _LEAST else 0
        end = start + size if OVERHEAD <= size <= len(data) - start else len(data)
        yield start, end
        start = end


def segments(data: bytes, most: int, body: int) -> Cuts:
    """Return the packets for `data`, of `most` bytes each, as (start, end of the kept bytes, end).

    They begin and end with a frame, if that has no more than `most` bytes. Of the payload of body frames `body` bytes
    are kept, all if that is below 0; omitted bytes are at the end of a packet.
    """
    if not data or (body < 0 and len(data) <= most):
        return [(0, len(data), len(data))] if data else []
    cuts: Cuts = []
    start = 0
    for at, end in frame_bounds(data):
        is_cut = body >= 0 and end - at - OVERHEAD > body and data[at + 1] == BODY and not data.startswith(HEADER, at)
        kept = at + OVERHEAD + body if is_cut else end
        if end - start > most and start < at:
            cuts.append((start, at, at))
            start = at
        while end - start > most:
            cuts.append((start, min(max(kept, start), start + most), start + most))
            start += most
        if kept < end:
            cuts.append((start, max(kept, start), end))
            start = end
    if start < len(data):
        cuts.append((start, len(data), len(data)))
    return cuts
