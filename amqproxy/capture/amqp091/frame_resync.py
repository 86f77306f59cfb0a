"""Frames in the bytes of one direction, some of which may be missing or be no frames at all.

After a gap, after bytes that are no frame, and where a capture begins mid-stream, reading resumes at the next frame
boundary, and an `UnreadableBytes` reports how many bytes were skipped. Where only the inside of one frame is missing,
its end is known; and if it is a body, of which the head is there, it is a frame all the same. This module may be
compiled.
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
"""The largest frame read where the peers agreed on no limit, or agreed on it before the capture began."""

_INDEX_OF = cython.declare(bytes, index_table())
_TUNE_OK = cython.declare(cython.int, BY_NAME["connection.tune-ok"].index)


Found: TypeAlias = Amqp091Chunk | list[Frame] | UnreadableBytes
"""Frames one after the other, at least one; or what is between such."""


@cython.final
@cython.cclass
class FrameResync:
    """One direction of a connection: bytes and holes in, frames and faults out.

    A frame begins with the first byte, at `offset`, unless there was a `fault` before: then that is to be found out.
    `header_max` bounds content headers where that is more than `frame_max`.

    Whole frames are found and checked in place, as `FrameReader` does, and no object is made of any. What is no frame
    is left to a `FrameReader`, which knows the error that a peer would answer with.
    """

    _tally: Tally
    _frame_max: cython.longlong
    _header_max: cython.longlong
    _is_reading: cython.bint
    # While reading: the bytes of the frame that is not whole yet, how many, how many it lacks, and where it begins.
    _pieces: list[bytes]
    _tail: cython.longlong
    _lacks: cython.longlong
    _begin: cython.longlong
    # Of the last scan: how many frames it found, and whether there is no frame where it ended.
    _count: cython.Py_ssize_t
    _is_refused: cython.bint
    # While not reading: what is skipped, since where, how far the skipping has come, and how.
    _fault: UnreadableBytes | None
    _since: cython.longlong
    _offset: cython.longlong
    _to_skip: cython.longlong
    _body: bytes  # the frame of a body, as far as it came, of which the rest is skipped
    _search: BoundarySearch
    _kept: bytes | None  # what is skipped, from where it began, while all of it is there
    _later: bytes  # what comes after the piece that is being read

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
        """Bytes that came, or are missing, since a boundary was lost; 0 while frames are read."""
        return 0 if self._is_reading else self._offset + self._search.seen - self._since

    def set_frame_max(self, frame_max: int) -> None:
        """Bound frames as the peers agreed; 0 is no bound."""
        self._frame_max = _bound(frame_max)

    def feed(self, ts_ns: int, data: bytes) -> list[Found]:
        """What the bytes that came next complete."""
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
        """Take that `lost` bytes are missing: the body that they complete.

        If they are of whole frames, and come behind one, what comes next begins with a frame.
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
            # What was searched ends in the hole, and so no whole frame can begin in it.
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
        """Pass over bytes behind whole frames, which have been reported: where they begin, or -1 if they are not."""
        if not self._is_reading or self._tail:
            return -1
        begin = self._begin
        self._begin += size
        return begin

    def end(self, ts_ns: int, reason: str) -> list[UnreadableBytes]:
        """Take that no more bytes come: what is skipped by now, or stays cut for `reason`."""
        if self._is_reading:
            if not self._tail:
                return []
            lost = self._tail
            kept = self._cut() if lost <= MAX_KEPT_BYTES else b""
            return [UnreadableBytes(ts_ns, reason, self._begin, lost, data=kept)]
        return self._close_fault(self._offset + self._search.seen)

    @cython.cfunc
    def _read(self, ts_ns: int, data: bytes, found: list[Found]) -> bytes:
        """Read the frames that `data` completes, or continue to gather one: what is left where none begins."""
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
        """Go over the whole frames in `data`: where they end."""
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
        """The bytes of the frame that is not whole yet, which are not held any more."""
        cut = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces = []
        self._tail = 0
        return cut

    @cython.cfunc
    def _keep(self, data: bytes) -> None:
        """Keep what is skipped, unless it is too much."""
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
        """Go on behind the first byte of what is no frame: the bytes from there."""
        reader = FrameReader(self._tally, frame_max=self._frame_max, header_max=self._header_max, offset=self._begin)
        reader.feed(refused)
        error = reader.error
        if error is None:
            raise AssertionError("two readers of frames differ")
        if not self._begin and self._header_max and (foreign := foreign_answer(refused)):
            error.text, error.offset = foreign, 0  # a server's first bytes
        offset = self._begin if error.offset is None else error.offset
        fault = UnreadableBytes(ts_ns, error.reply_text, offset, code=error.code, channel=error.channel)
        self._lose_place(fault, self._begin)
        self._keep(refused + self._later)
        self._offset += 1  # what was refused does not begin a frame
        return refused[1:]

    @cython.cfunc
    def _mend(self, ts_ns: int, data: bytes, found: list[Found]) -> bytes:
        """Take one step with `data`, at least one: what is left of them for the next."""
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
        """Pass over the rest of a frame. If it does not end as one, or no frame follows, the boundary is searched."""
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
        """Resume reading frames behind a body: nothing is unknown but the rest of what it held."""
        known, self._body = self._body, b""
        size = int.from_bytes(known[3:HEAD_BYTES], "big")
        lost = HEAD_BYTES + size - len(known)
        raw = known[: HEAD_BYTES + size] + bytes(max(0, lost)) + b"\xce"
        found.append([Frame(raw, self._begin, max(0, lost))])
        self._fault = None
        self._resume(found)

    @cython.cfunc
    def _resume(self, found: list[Found]) -> None:
        """Resume reading frames here, and report what was skipped."""
        self._is_reading = True
        self._search = BoundarySearch(self._frame_max)
        self._begin = self._offset
        found += self._close_fault(self._offset)

    @cython.cfunc
    def _close_fault(self, upto: cython.longlong) -> list[UnreadableBytes]:
        """The fault, now that it is known what it cost, if anything."""
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
