"""Search for frame boundaries in bytes that begin mid-stream or have a gap.

A place is accepted if a whole frame is there whose header, end and method or content class are valid, and the following
bytes do not contradict it. A message body proves little by itself: it needs such a frame after it, or must end exactly
at the end of the available bytes, as the last frame of a segment does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from amqproxy.amqp091.frame import BODY, FRAME_END, HEADER, HEARTBEAT, METHOD, OVERHEAD
from amqproxy.amqp091.methods import METHODS

MAX_FRAME_BYTES = 1024 * 1024
"""The largest frame accepted while searching; brokers negotiate an eighth of it."""
MAX_WINDOW_BYTES = 64 * 1024
"""Bytes held while searching; larger frames are passed over, and a smaller one after them is found."""
MAX_PLACES = 256
"""Candidates for frames that are still incomplete; beyond it the oldest is given up."""

HEAD_BYTES = 7
PROOF_BYTES = 11
"""Bytes that are enough to recognize a method or content header."""

IMPOSSIBLE = -1
UNSURE = 0

_CONNECTION_CLASS = 10
_BASIC_CLASS = 60
_HEADER_LEAST = 14


def _pattern() -> re.Pattern[bytes]:
    classes = b"".join(re.escape(bytes([number])) for number in sorted({key >> 16 for key in METHODS}))
    size = rb"\x00[\x00-\x0f].."
    kinds = [
        rb"\x01.." + size + rb"\x00[" + classes + rb"]\x00",
        rb"\x02.." + size + rb"\x00\x3c\x00\x00",
        rb"\x03.." + size,
        rb"\x08\x00\x00\x00\x00\x00\x00\xce",
    ]
    return re.compile(b"(?=" + b"|".join(kinds) + b")", re.DOTALL)


_LOOKS_LIKE_A_HEAD = _pattern()


def frame_at(data: bytes | bytearray, at: int, limit: int = MAX_FRAME_BYTES) -> int:
    """Return the end of the frame at `at`; UNSURE while it is incomplete, IMPOSSIBLE if there is none."""
    head = data[at : at + PROOF_BYTES]
    if not head:
        return UNSURE
    kind = head[0]
    if kind not in (METHOD, HEADER, BODY, HEARTBEAT):
        return IMPOSSIBLE
    if len(head) < HEAD_BYTES:
        return UNSURE
    channel = head[1] << 8 | head[2]
    size = int.from_bytes(head[3:7], "big")
    if size > (limit if kind != HEADER else MAX_FRAME_BYTES):  # a server's headers may be above frame_max
        return IMPOSSIBLE
    if kind == HEARTBEAT:
        if channel or size:
            return IMPOSSIBLE
    elif kind == METHOD:
        if size < 4:
            return IMPOSSIBLE
        if len(head) == PROOF_BYTES:
            key = int.from_bytes(head[7:11], "big")
            if key not in METHODS or (key >> 16 == _CONNECTION_CLASS) != (channel == 0):
                return IMPOSSIBLE
    elif channel == 0:
        return IMPOSSIBLE
    elif kind == HEADER:
        if size < _HEADER_LEAST:
            return IMPOSSIBLE
        if len(head) == PROOF_BYTES and int.from_bytes(head[7:11], "big") != _BASIC_CLASS << 16:
            return IMPOSSIBLE
    end = at + OVERHEAD + size
    if end > len(data):
        return UNSURE
    return end if data[end - 1] == FRAME_END else IMPOSSIBLE


def is_proof(data: bytes | bytearray, at: int) -> bool:
    """Whether a frame that `frame_at` accepts at `at` can hardly be anything else, even while incomplete."""
    if data[at] == HEARTBEAT:
        return len(data) - at >= OVERHEAD
    return data[at] != BODY and len(data) - at >= PROOF_BYTES


class BoundarySearch:
    """A search for the next boundary in arriving bytes that rejects payloads over `limit`.

    `passed` counts the bytes that are no longer held.
    """

    __slots__ = ("_data", "_limit", "_places", "_scanned", "passed")

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        self.passed = 0
        self._limit = min(limit, MAX_FRAME_BYTES)
        self._data = bytearray()
        self._places: list[int] = []
        self._scanned = 0

    @property
    def seen(self) -> int:
        """Number of bytes searched."""
        return self.passed + len(self._data)

    def feed(self, data: bytes) -> bytes | None:
        """Add bytes, and return those from the boundary on once it is found.

        `passed` then counts the bytes before it.
        """
        held = self._data
        held += data
        unsure: list[int] = []
        for place in self._candidates():
            verdict = _believed(held, place, self._limit)
            if verdict:
                self.passed += place
                return bytes(held[place:])
            if verdict is None:
                unsure.append(place)
        self._places = unsure[-MAX_PLACES:]
        self._scanned = max(self._scanned, len(held) - PROOF_BYTES + 1)
        keep = min(self._places[0] if self._places else len(held), self._scanned)
        if len(held) - keep > MAX_WINDOW_BYTES:
            keep = len(held) - MAX_WINDOW_BYTES // 2
        self._drop(keep)
        return None

    def _candidates(self) -> Iterator[int]:
        """Yield places where a frame may begin, undecided ones first."""
        yield from self._places
        last = self._places[-1] if self._places else -1
        for found in _LOOKS_LIKE_A_HEAD.finditer(self._data, self._scanned):
            if found.start() > last:
                yield found.start()

    def _drop(self, count: int) -> None:
        del self._data[:count]
        self.passed += count
        self._scanned = max(0, self._scanned - count)
        self._places = [place - count for place in self._places if place >= count]


def _believed(data: bytearray, place: int, limit: int) -> bool | None:
    """Whether frames begin at `place`; None while undecided."""
    is_proven = False
    while True:
        end = frame_at(data, place, limit)
        if end == IMPOSSIBLE:
            return False
        if end == UNSURE:
            return True if is_proven else None
        if is_proven or end == len(data):
            return True
        is_proven = is_proof(data, place)
        place = end
