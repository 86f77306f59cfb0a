"""Frames in the bytes of one direction, some of which may be missing or be no frames at all.

After a gap, after bytes that are no frame, and where a capture begins mid-stream, reading resumes at the next frame
boundary, and an `UnreadableBytes` reports how many bytes were skipped. Where only the inside of one frame is missing,
its end is known. This module may be compiled.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from amqproxy import _cython as cython

from typing import TypeAlias

import msgspec

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import FRAME_END, OVERHEAD, Frame
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.tally import Tally
from amqproxy.capture.boundary import HEAD_BYTES, IMPOSSIBLE, MAX_WINDOW_BYTES, BoundarySearch, frame_at

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""The largest frame read where the peers agreed on no limit, or agreed on it before the capture began."""

MISSING = "bytes are missing from the capture"
JOINED = "the capture begins within a frame"


class UnreadableBytes(msgspec.Struct):
    """Bytes that could not be read: `lost` of them, from `offset` on, which was found out at `ts_ns`.

    `code` is the reply code that a peer would answer with, or None where the fault is not the sender's.
    """

    ts_ns: int
    reason: str
    offset: int
    lost: int = 0
    code: int | None = None
    channel: int | None = None


Found: TypeAlias = list[Frame] | UnreadableBytes
"""Frames one after the other, at least one; or what is between such."""


@cython.final
@cython.cclass
class FrameResync:
    """One direction of a connection: bytes and holes in, frames and faults out.

    A frame begins with the first byte, at `offset`, unless there was a `fault` before: then that is to be found out.
    """

    _tally: Tally
    _frame_max: cython.longlong
    _reader: FrameReader
    _is_reading: cython.bint
    _fed: cython.longlong  # how far the bytes go that the reader was given
    _tail: cython.longlong  # bytes of the frame that is not whole yet
    _pieces: list[bytes]  # what came in and holds that tail, at its end
    # While not reading: what is skipped, since where, how far the skipping has come, and how.
    _fault: UnreadableBytes | None
    _since: cython.longlong
    _offset: cython.longlong
    _to_skip: cython.longlong
    _search: BoundarySearch

    def __init__(
        self, tally: Tally, *, frame_max: int = 0, offset: int = 0, fault: UnreadableBytes | None = None
    ) -> None:
        self._tally = tally
        self._frame_max = _bound(frame_max)
        self._reader = FrameReader(tally, frame_max=self._frame_max, offset=offset)
        self._is_reading = fault is None
        self._fed = offset
        self._tail = 0
        self._pieces = []
        self._fault = fault
        self._since = offset if fault is None else fault.offset
        self._offset = offset
        self._to_skip = 0
        self._search = BoundarySearch(self._frame_max)

    @property
    def skipped(self) -> int:
        """Bytes that came, or are missing, since a boundary was lost; 0 while frames are read."""
        return 0 if self._is_reading else self._offset + self._search.seen - self._since

    def set_frame_max(self, frame_max: int) -> None:
        """Bound frames as the peers agreed; 0 is no bound."""
        self._frame_max = _bound(frame_max)
        self._reader.set_frame_max(self._frame_max)

    def feed(self, ts_ns: int, data: bytes) -> list[Found]:
        """What the bytes that came next complete."""
        if self._is_reading:
            reader = self._reader
            frames = reader.feed(data)
            if reader.error is None:
                self._keep_tail(data)
                return [frames] if frames else []
            found: list[Found] = [frames] if frames else []
            data = self._refused(ts_ns, reader.error, data)
        else:
            found = []
        for at in range(0, len(data), MAX_WINDOW_BYTES):
            piece = data[at : at + MAX_WINDOW_BYTES]
            while piece:
                piece = self._mend(ts_ns, piece, found)
        return found

    def gap(self, ts_ns: int, lost: int) -> None:
        """Take that `lost` bytes are missing."""
        if self._is_reading:
            cut = self._cut()
            self._lose_place(UnreadableBytes(ts_ns, MISSING, self._reader.offset), self._reader.offset)
            self._offset += len(cut) + lost
            if len(cut) >= HEAD_BYTES:
                size = int.from_bytes(cut[3:HEAD_BYTES], "big")
                self._to_skip = max(0, OVERHEAD + size - len(cut) - lost)
        else:
            # What was searched ends in the hole, and so no whole frame can begin in it.
            self._offset += self._search.seen + lost
            self._search = BoundarySearch(self._frame_max)
            self._to_skip = max(0, self._to_skip - lost)

    def end(self, ts_ns: int, reason: str) -> list[UnreadableBytes]:
        """Take that no more bytes come: what is skipped by now, or stays cut for `reason`."""
        if self._is_reading:
            return [UnreadableBytes(ts_ns, reason, self._reader.offset, self._tail)] if self._tail else []
        return self._close_fault(self._offset + self._search.seen)

    @cython.cfunc
    def _keep_tail(self, data: bytes) -> None:
        """Keep what holds the bytes of the frame that is not whole yet: a refusal may come to need them."""
        self._fed += len(data)
        tail = self._fed - self._reader.offset
        if tail:
            if tail <= len(data):
                self._pieces = [data]
            else:
                self._pieces.append(data)
            self._tail = tail
        elif self._tail:
            self._pieces = []
            self._tail = 0

    @cython.cfunc
    def _cut(self) -> bytes:
        """The bytes of the frame that is not whole yet, which are not held any more."""
        cut = b"".join(self._pieces)[-self._tail :] if self._tail else b""
        self._pieces = []
        self._tail = 0
        return cut

    @cython.cfunc
    def _lose_place(self, fault: UnreadableBytes, since: int) -> None:
        self._is_reading = False
        self._fault = fault
        self._since = self._offset = since
        self._to_skip = 0
        self._search = BoundarySearch(self._frame_max)

    @cython.cfunc
    def _refused(self, ts_ns: int, error: ProtocolError, data: bytes) -> bytes:
        """Go on behind the place where the reader found what is no frame: the bytes from there."""
        reader = self._reader
        refused = (self._cut() + data)[len(reader.taken) :]
        offset = reader.offset if error.offset is None else error.offset
        fault = UnreadableBytes(ts_ns, error.reply_text, offset, code=error.code, channel=error.channel)
        self._lose_place(fault, reader.offset)
        self._offset += 1  # what was refused does not begin a frame
        return refused[1:]

    @cython.cfunc
    def _mend(self, ts_ns: int, data: bytes, found: list[Found]) -> bytes:
        """Take one step with `data`, at least one: what is left of them for the next."""
        if self._is_reading:
            frames = self._reader.feed(data)
            if frames:
                found.append(frames)
            if self._reader.error is not None:
                return self._refused(ts_ns, self._reader.error, data)
            self._keep_tail(data)
            return b""
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
            return data
        self._offset += end
        self._resume(found)
        return data[end:]

    @cython.cfunc
    def _resume(self, found: list[Found]) -> None:
        """Resume reading frames here, and report what was skipped."""
        self._is_reading = True
        self._search = BoundarySearch(self._frame_max)
        self._reader = FrameReader(self._tally, frame_max=self._frame_max, offset=self._offset)
        self._fed = self._offset
        found += self._close_fault(self._offset)

    @cython.cfunc
    def _close_fault(self, upto: cython.longlong) -> list[UnreadableBytes]:
        """The fault, now that it is known what it cost, if anything."""
        fault, self._fault = self._fault, None
        if fault is None or upto == self._since:
            return []
        fault.lost = upto - self._since
        return [fault]


def _bound(frame_max: int) -> int:
    return min(frame_max or MAX_FRAME_BYTES, MAX_FRAME_BYTES)
