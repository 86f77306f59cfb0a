"""Places at which bytes of whole frames are cut into packets, and detection of secrets. This module may be compiled.

Bytes that are not whole frames are kept as they are: malformed data is recorded, too.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from amqproxy.compiled import _cython as cython

from collections.abc import Sequence

from amqproxy.capture.cuts import Cuts

HAS_SECRET: Cuts = []
"""Placeholder for the cuts of data that must be masked first."""

_HEAD = cython.declare(cython.Py_ssize_t, 7)
_OVERHEAD = cython.declare(cython.Py_ssize_t, 8)

GROUP = 256
"""Pieces of data that are processed without releasing control."""

MOST_CUTS = 1024
"""Packets in one group, unless a single piece has more."""

_MOST_CUTS = cython.declare(cython.Py_ssize_t, MOST_CUTS)


def segments(data: bytes, most: int, body: int) -> Cuts:
    """Return the packets for `data`, of `most` bytes each.

    They begin and end with a frame, if that has no more than `most` bytes. Of the payload of body frames `body` bytes
    are kept, all if that is below 0; omitted bytes are at the end of a packet.
    """
    if not data or (body < 0 and len(data) <= most):
        return [(0, len(data), len(data))] if data else []
    return FrameCutter(most, body, finds_secrets=False).find([data])[0] or [(0, len(data), len(data))]


@cython.final
@cython.cclass
class FrameCutter:
    """Finds the `segments` of many pieces of data at once, while other threads run.

    Its progress is `_at`, in a packet from `_start` on. `_cuts` has three numbers for each of the `_count` packets
    found since they were last taken, `_counts` the number of packets of each piece.
    """

    def __init__(self, most: int, body: int, *, finds_secrets: bool = True) -> None:
        if not cython.compiled:
            self._cuts = [0] * (3 * MOST_CUTS)
            self._data = [b""] * GROUP
            self._sizes = [0] * GROUP
            self._counts = [0] * GROUP
        self._most = most
        self._body = body
        self._finds_secrets = finds_secrets
        self._at = self._start = self._count = 0

    def find(self, pieces: Sequence[bytes]) -> list[Cuts | None]:
        """Return the cuts of each piece; None for a piece that is one packet, `HAS_SECRET` if it may hold a secret."""
        found: list[Cuts | None] = []
        for start in range(0, len(pieces), GROUP):
            self._find_in(pieces[start : start + GROUP], found)
        return found

    @cython.cfunc
    def _find_in(self, pieces: Sequence[bytes], found: list) -> object:  # type: ignore[type-arg]
        count: cython.Py_ssize_t = len(pieces)
        number: cython.Py_ssize_t
        piece: bytes
        for number in range(count):
            piece = pieces[number]
            self._data[number] = piece
            self._sizes[number] = len(piece)
        first: cython.Py_ssize_t = 0
        last: cython.Py_ssize_t = 0
        cut: cython.Py_ssize_t
        cuts: Cuts = []
        self._at = self._start = 0
        while last < count:
            self._count = 0
            with cython.nogil:
                last = self._look(first, count)
            cut = 0
            for number in range(first, min(last + 1, count)):
                for _ in range(self._counts[number]):
                    cuts.append((self._cuts[cut], self._cuts[cut + 1], self._cuts[cut + 2]))
                    cut += 3
                if number < last:
                    found.append(HAS_SECRET if self._counts[number] < 0 else cuts or None)
                    cuts = []
            first = last
        return None

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _look(self, number: cython.Py_ssize_t, count: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Process pieces from `number` on while cuts have room; return the unfinished piece, or `count`.

        The count of a piece with a secret is -1.
        """
        before: cython.Py_ssize_t
        outcome: cython.int
        while number < count:
            before = self._count
            outcome = self._cut(self._data[number], self._sizes[number])
            if outcome < 0:
                self._count = before
                self._counts[number] = -1
            else:
                self._counts[number] = self._count - before
            if outcome == 0:
                break
            self._at = self._start = 0
            number += 1
        return number

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _cut(self, p: cython.p_const_uchar, size: cython.Py_ssize_t) -> cython.int:
        """Continue with one piece; return 1 if it is finished, 0 without room for a cut, -1 if it may hold a secret."""
        most: cython.Py_ssize_t = self._most
        body: cython.longlong = self._body
        start: cython.Py_ssize_t = self._start
        at: cython.Py_ssize_t = self._at
        end: cython.Py_ssize_t
        kept: cython.Py_ssize_t
        while at < size:
            end = size
            kept = size
            if at + _HEAD <= size:
                if self._finds_secrets and _has_secret(p, at, size):
                    return -1
                end = min(at + _OVERHEAD + _length(p, at), size)
                kept = end
                if body >= 0 and p[at] == 3 and end - at - _OVERHEAD > body:
                    kept = at + _HEAD + body
            if end - start > most and start < at:
                if not self._add(start, at, at, at):
                    return 0
                start = at
            while end - start > most:
                if not self._add(start, min(max(kept, start), start + most), start + most, at):
                    return 0
                start += most
            if kept < end:
                if not self._add(start, max(kept, start), end, at):
                    return 0
                start = end
            at = end
        if 0 < start < size and not self._add(start, size, size, at):
            return 0
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _add(
        self, start: cython.Py_ssize_t, kept: cython.Py_ssize_t, end: cython.Py_ssize_t, at: cython.Py_ssize_t
    ) -> cython.bint:
        """Add a packet if there is room; otherwise the next call adds it, processing the frame at `at` again."""
        place: cython.Py_ssize_t = 3 * self._count
        if self._count == _MOST_CUTS:
            self._start = start
            self._at = at
            return False
        self._cuts[place] = start
        self._cuts[place + 1] = kept
        self._cuts[place + 2] = end
        self._count += 1
        return True


def secret_frame(data: bytes, start: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the first frame from `start` that could hold a secret: start-ok, secure-ok or update-secret.

    -1 if there is none.
    """
    size: cython.Py_ssize_t = len(data)
    p: cython.p_const_uchar = data
    at: cython.Py_ssize_t = start
    while at + _HEAD <= size:
        if _has_secret(p, at, size):
            return at
        at += _OVERHEAD + _length(p, at)
    return -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _has_secret(p: cython.p_const_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.bint:
    """Whether the frame at `at` could hold a secret."""
    if p[at] != 1 or at + 11 > size or p[at + 7] != 0 or p[at + 8] != 10 or p[at + 9] != 0:
        return False
    return p[at + 10] == 11 or p[at + 10] == 21 or p[at + 10] == 70  # start-ok, secure-ok, update-secret


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _length(p: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the payload size of the frame whose header is at `at`."""
    high: cython.Py_ssize_t = p[at + 3]
    return high << 24 | p[at + 4] << 16 | p[at + 5] << 8 | p[at + 6]
