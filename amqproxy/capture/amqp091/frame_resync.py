"""Frames in the bytes of one direction, which may have gaps or hold other data.

After a gap, after bytes that are not a frame, and if a capture begins mid-stream, reading resumes at the next frame
boundary, and an `UnreadableBytes` reports the number of bytes skipped. If bytes are missing only inside one frame, its
end is known; a body whose header is present is still a frame. This module may be compiled.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from amqproxy.compiled import _cython as cython

from typing import TypeAlias

from amqproxy.amqp091.frame import BODY, FRAME_END, OVERHEAD, Frame, index_table
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.methods import BY_NAME
from amqproxy.amqp091.protocol_header import foreign_answer
from amqproxy.amqp091.tally import Tally
from amqproxy.capture.amqp091.boundary import HEAD_BYTES, IMPOSSIBLE, MAX_WINDOW_BYTES, BoundarySearch, frame_at
from amqproxy.capture.unreadable_bytes import MAX_KEPT_BYTES, MISSING, UnreadableBytes
from amqproxy.taps.amqp091.chunk import Amqp091Chunk

if not cython.compiled:
    from amqproxy.compiled.byte_access import long_at

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""The largest frame read if the peers negotiated no limit, or did so before the capture began."""

_INDEX_OF = cython.declare(bytes, index_table())
_TUNE_OK = cython.declare(cython.int, BY_NAME["connection.tune-ok"].index)


Found: TypeAlias = Amqp091Chunk | list[Frame] | UnreadableBytes
"""Consecutive frames, at least one; or the bytes between them."""


@cython.final
@cython.auto_pickle(True)
@cython.cclass
class FrameResync:
    """One direction of a connection: bytes and gaps in, frames and faults out.

    A frame begins with the first byte, at `offset`, unless there was a `fault` before: then the boundary is searched.
    `header_max` bounds content headers if it is more than `frame_max`.

    Whole frames are located and checked in place, as `FrameReader` does, without creating an object for any. Bytes that
    are not a frame are passed to a `FrameReader`, which knows the error that a peer would answer with.
    """

    _tally: Tally
    _frame_max: cython.longlong
    _header_max: cython.longlong
    _is_reading: cython.bint
    # While reading: the bytes of the incomplete frame, their number, the number missing, and the frame's offset.
    _pieces: list[bytes]
    _tail: cython.longlong
    _lacks: cython.longlong
    _begin: cython.longlong
    # Of the last scan: the number of frames, and whether invalid bytes ended it.
    _count: cython.Py_ssize_t
    _is_refused: cython.bint
    # While not reading: the fault, its offset, the progress of skipping, and its mode.
    _fault: UnreadableBytes | None
    _since: cython.longlong
    _offset: cython.longlong
    _to_skip: cython.longlong
    _body: bytes  # the received part of a body frame whose rest is skipped
    _search: BoundarySearch
    _kept: bytes | None  # the skipped bytes from their beginning, while they are complete
    _later: bytes  # the data after the current piece

    def __init__(
        self,
        tally: Tally,
        *,
        frame_max: int = 0,
        header_max: int = 0,
        offset: int = 0,
        fault: UnreadableBytes | None = None,
    ) -> None:
        self._tally = tally
        self._frame_max = _bound(frame_max)
        self._header_max = header_max
        self._is_reading = fault is None
        self._pieces = []
        self._tail = 0
        self._lacks = 0
        self._begin = offset
        self._count = 0
        self._is_refused = False
        self._fault = fault
        self._since = offset if fault is None else fault.offset
        self._offset = offset
        self._to_skip = 0
        self._body = b""
        self._search = BoundarySearch(self._frame_max)
        self._kept = None
        self._later = b""

    @property
    def skipped(self) -> int:
        """Bytes received, or missing, since the boundary was lost; 0 while frames are read."""
        return 0 if self._is_reading else self._offset + self._search.seen - self._since

    def set_frame_max(self, frame_max: int) -> None:
        """Set the negotiated frame size limit; 0 for no limit."""
        self._frame_max = _bound(frame_max)

    def feed(self, ts_ns: int, data: bytes) -> list[Found]:
        """Add the next bytes, and return the frames and faults that they complete."""
        found: list[Found] = []
        if self._is_reading:
            data = self._read(ts_ns, data, found)
            if not data:
                return found
        elif self._kept is not None:
            self._keep(self._kept + data)
        for at in range(0, len(data), MAX_WINDOW_BYTES):
            piece = data[at : at + MAX_WINDOW_BYTES]
            self._later = data[at + MAX_WINDOW_BYTES :]
            while piece:
                piece = self._mend(ts_ns, piece, found)
        return found

    def gap(self, ts_ns: int, lost: int, is_whole: cython.bint = False) -> list[Found]:
        """Account for `lost` missing bytes; return what they complete, such as a body frame, or report.

        With `is_whole`, whole frames are missing: if they follow a whole frame, the next bytes begin with a frame.
        """
        self._kept = None
        found: list[Found] = []
        if is_whole and self._is_reading and not self._tail:
            found.append(UnreadableBytes(ts_ns, MISSING, self._begin, lost))
            self._begin += lost
            return found
        if self._is_reading:
            cut = self._cut()
            self._lose_place(UnreadableBytes(ts_ns, MISSING, self._begin), self._begin)
            self._offset += len(cut)
            if len(cut) >= HEAD_BYTES:
                self._to_skip = OVERHEAD + int.from_bytes(cut[3:HEAD_BYTES], "big") - len(cut)
                if cut[0] == BODY and cut[1] | cut[2]:
                    self._body = cut
        else:
            # The searched bytes end at the gap, so no whole frame can begin in them.
            self._offset += self._search.seen
            self._search = BoundarySearch(self._frame_max)
        if self._body and lost >= self._to_skip:
            self._offset += self._to_skip
            lost -= self._to_skip
            self._resume_after_body(found)
            if not lost:
                return found
            self._lose_place(UnreadableBytes(ts_ns, MISSING, self._begin), self._begin)
        self._offset += lost
        self._to_skip = max(0, self._to_skip - lost)
        return found

    def skip(self, size: int) -> int:
        """Skip reported bytes after whole frames; return their offset, or -1 if they do not follow whole frames."""
        if not self._is_reading or self._tail:
            return -1
        begin = self._begin
        self._begin += size
        return begin

    def end(self, ts_ns: int, reason: str) -> list[UnreadableBytes]:
        """Report, at the end of the bytes, those that were skipped, or an incomplete frame with `reason`."""
        if self._is_reading:
            if not self._tail:
                return []
            lost = self._tail
            kept = self._cut() if lost <= MAX_KEPT_BYTES else b""
            return [UnreadableBytes(ts_ns, reason, self._begin, lost, data=kept)]
        return self._close_fault(self._offset + self._search.seen)

    @cython.cfunc
    def _read(self, ts_ns: int, data: bytes, found: list[Found]) -> bytes:
        """Read the frames that `data` completes, or extend an incomplete one; return the rest if no frame begins it."""
        if self._tail:
            if len(data) < self._lacks:
                self._pieces.append(data)
                self._tail += len(data)
                self._lacks -= len(data)
                return b""
            data = self._cut() + data
        end: cython.Py_ssize_t = self._scan(data)
        if end:
            found.append(Amqp091Chunk(data[:end], self._begin, self._count, False, True))
            self._begin += end
        if self._is_refused:
            return self._refused(ts_ns, data[end:])
        if end < len(data):
            self._pieces.append(data[end:])
            self._tail = len(data) - end
        return b""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _scan(self, data: bytes) -> cython.Py_ssize_t:
        """Check the whole frames in `data`, and return their end."""
        p: cython.p_const_uchar = data
        index_of: cython.p_const_uchar = _INDEX_OF
        length: cython.Py_ssize_t = len(data)
        position: cython.Py_ssize_t = 0
        count: cython.Py_ssize_t = 0
        most: cython.longlong = self._frame_max
        size: cython.longlong
        whole: cython.longlong
        kind: cython.int
        index: cython.int
        self._is_refused = False
        self._lacks = 0
        while True:
            if length - position < 7:
                self._lacks = 7 - (length - position)
                break
            kind = p[position]
            size = long_at(p, position + 3)
            if (size > most and (kind != 2 or size > self._header_max)) or (kind != 8 and not 1 <= kind <= 3):
                self._is_refused = True
                break
            whole = size + 8
            if length - position < whole:
                self._lacks = whole - (length - position)
                break
            if p[position + whole - 1] != 0xCE:
                self._is_refused = True
                break
            if kind == 1:
                index = 0xFF
                if size >= 4 and p[position + 7] | p[position + 9] == 0:
                    index = index_of[p[position + 8] * 256 + p[position + 10]]
                if index == 0xFF:
                    self._is_refused = True
                    break
                if index == _TUNE_OK and size >= 10 and p[position + 1] | p[position + 2] == 0:
                    most = self._frame_max = _bound(long_at(p, position + 13))
            elif kind == 8 and (size != 0 or p[position + 1] | p[position + 2] != 0):
                self._is_refused = True
                break
            count += 1
            position += whole
        self._count = count
        return position

    @cython.cfunc
    def _cut(self) -> bytes:
        """Remove and return the bytes of the incomplete frame."""
        cut = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces = []
        self._tail = 0
        return cut

    @cython.cfunc
    def _keep(self, data: bytes) -> None:
        """Keep the skipped bytes, unless they are too many."""
        self._kept = data if len(data) <= MAX_WINDOW_BYTES + MAX_KEPT_BYTES else None

    @cython.cfunc
    def _lose_place(self, fault: UnreadableBytes, since: int) -> None:
        self._is_reading = False
        self._fault = fault
        self._since = self._offset = since
        self._to_skip = 0
        self._body = b""
        self._search = BoundarySearch(self._frame_max)

    @cython.cfunc
    def _refused(self, ts_ns: int, refused: bytes) -> bytes:
        """Report bytes that are not a frame, and return those after the first of them."""
        reader = FrameReader(self._tally, frame_max=self._frame_max, header_max=self._header_max, offset=self._begin)
        reader.feed(refused)
        error = reader.error
        if error is None:
            raise AssertionError("two readers of frames differ")
        if not self._begin and self._header_max and (foreign := foreign_answer(refused)):
            error.text, error.offset = foreign, 0  # the first bytes of a server
        offset = self._begin if error.offset is None else error.offset
        fault = UnreadableBytes(ts_ns, error.reply_text, offset, code=error.code, channel=error.channel)
        self._lose_place(fault, self._begin)
        self._keep(refused + self._later)
        self._offset += 1  # no frame begins at the refused byte
        return refused[1:]

    @cython.cfunc
    def _mend(self, ts_ns: int, data: bytes, found: list[Found]) -> bytes:
        """Process at least one byte of `data`, and return the rest."""
        if self._is_reading:
            return self._read(ts_ns, data, found)
        if self._to_skip:
            return self._skip(data, found)
        rest = self._search.feed(data)
        if rest is None:
            return b""
        self._offset += self._search.passed
        self._resume(found)
        return rest

    @cython.cfunc
    def _skip(self, data: bytes, found: list[Found]) -> bytes:
        """Skip the rest of a frame; if it does not end as a frame, or no frame follows, search for the boundary."""
        end = self._to_skip
        if len(data) < end:
            self._to_skip -= len(data)
            self._offset += len(data)
            return b""
        self._to_skip = 0
        if data[end - 1] != FRAME_END or frame_at(data, end) == IMPOSSIBLE:
            self._body = b""
            return data
        self._offset += end
        if self._body:
            self._resume_after_body(found)
        else:
            self._resume(found)
        return data[end:]

    @cython.cfunc
    def _resume_after_body(self, found: list[Found]) -> None:
        """Resume reading after a body frame, of which only the rest of its content is unknown."""
        known, self._body = self._body, b""
        size = int.from_bytes(known[3:HEAD_BYTES], "big")
        lost = HEAD_BYTES + size - len(known)
        raw = known[: HEAD_BYTES + size] + bytes(max(0, lost)) + b"\xce"
        found.append([Frame(raw, self._begin, max(0, lost))])
        self._fault = None
        self._resume(found)

    @cython.cfunc
    def _resume(self, found: list[Found]) -> None:
        """Resume reading frames here, and report the skipped bytes."""
        self._is_reading = True
        self._search = BoundarySearch(self._frame_max)
        self._begin = self._offset
        found += self._close_fault(self._offset)

    @cython.cfunc
    def _close_fault(self, upto: cython.longlong) -> list[UnreadableBytes]:
        """Return the current fault with the number of bytes lost, if any."""
        fault, self._fault = self._fault, None
        if fault is None or upto == self._since:
            return []
        fault.lost = upto - self._since
        if self._kept is not None and fault.lost <= MAX_KEPT_BYTES:
            fault.data = self._kept[: fault.lost]
        self._kept = None
        return [fault]


def _bound(frame_max: int) -> int:
    return min(frame_max or MAX_FRAME_BYTES, MAX_FRAME_BYTES)
