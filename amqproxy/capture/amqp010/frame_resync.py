"""Frames of AMQP 0-10 in the bytes of one direction, which may have gaps or hold other data.

As in `frame_resync`: after a gap, and after bytes that are not a frame, reading resumes at the next frame, and an
`UnreadableBytes` reports the number of bytes skipped. If bytes are missing only inside one frame, its end is known; a
body with such a gap is still a frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from amqproxy.amqp010.boundary import FrameSearch, frame_size_at
from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.frame import BODY, OVERHEAD, Frame
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.capture.unreadable_bytes import MAX_KEPT_BYTES, MISSING, UnreadableBytes


class Amqp010Frames(NamedTuple):
    """Consecutive frames, at least one, with the id of each frame's command; None without one."""

    frames: Sequence[Frame]
    command_ids: Sequence[int | None]


class Amqp010Resync:
    """One direction of a connection: bytes and gaps in, frames and faults out.

    A frame begins with the first byte, at `offset`, unless there was a `fault` before: then the boundary is searched.
    """

    def __init__(self, *, offset: int = 0, fault: UnreadableBytes | None = None) -> None:
        self._reader: FrameReader | None = None if fault is not None else _reader(offset)
        # While not reading: the held bytes (a frame at most), their offset, and the fault to report, since its offset.
        self._search: FrameSearch | None = None
        self._offset = offset
        self._since = offset if fault is None else fault.offset
        self._to_skip = 0
        self._body = b""
        self._fault = UnreadableBytes(0, MISSING, offset) if fault is None else fault
        self._refused_at = -1
        self._numbering = CommandNumbering()

    def feed(self, ts_ns: int, data: bytes) -> list[Amqp010Frames | UnreadableBytes]:
        """Add the next bytes, and return the frames and faults that they complete."""
        found: list[Amqp010Frames | UnreadableBytes] = []
        while data:
            data = self._read(ts_ns, data, found) if self._reader is not None else self._seek(data, found)
        return found

    def gap(self, ts_ns: int, lost: int, is_whole: bool = False) -> list[Amqp010Frames | UnreadableBytes]:
        """Account for `lost` missing bytes, and return the body frame that they complete.

        If they are whole frames, and follow one, the next bytes begin with a frame.
        """
        found: list[Amqp010Frames | UnreadableBytes] = []
        if is_whole and self._reader is not None and not self._reader.held:
            offset = self._reader.offset
            self._reader = _reader(offset + lost)
            self._numbering.forget()
            found.append(UnreadableBytes(ts_ns, MISSING, offset, lost))
            return found
        if self._reader is not None:
            cut = self._reader.held
            is_of_body = len(cut) >= OVERHEAD and cut[1] == BODY and int.from_bytes(cut[2:4]) - len(cut) >= lost
            self._lose_place(UnreadableBytes(ts_ns, MISSING, self._reader.offset), forgets=not is_of_body)
            self._offset += len(cut)
            if len(cut) >= OVERHEAD:
                self._to_skip = int.from_bytes(cut[2:4]) - len(cut)
                self._body = cut if cut[1] == BODY else b""
        else:
            self._offset = self._end_of_held()
            self._search = None
        skipped = min(self._to_skip, lost)
        self._offset += lost
        self._to_skip -= skipped
        if self._body and not self._to_skip:
            self._offset -= lost - skipped
            self._finish_body(found)
            if lost > skipped:
                return found + self.gap(ts_ns, lost - skipped)
        return found

    def end(self, ts_ns: int, reason: str) -> list[UnreadableBytes]:
        """Report, at the end of the bytes, those that were skipped, or an incomplete frame with `reason`."""
        if self._reader is None:
            return self._report(self._end_of_held())
        held = self._reader.held
        if not held:
            return []
        kept = held if len(held) <= MAX_KEPT_BYTES else b""
        return [UnreadableBytes(ts_ns, reason, self._reader.offset, len(held), data=kept)]

    def _read(self, ts_ns: int, data: bytes, found: list[Amqp010Frames | UnreadableBytes]) -> bytes:
        """Read frames, and return the rest at which no frame begins."""
        reader = self._reader
        assert reader is not None
        frames = reader.feed(data)
        if frames:
            found.append(Amqp010Frames(frames, self._numbering.numbers(frames)))
        error = reader.error
        if error is None:
            return b""
        begin, refused = reader.offset, reader.refused
        fault = UnreadableBytes(ts_ns, error.reply_text, begin, code=int(error.code), channel=error.channel)
        self._lose_place(fault)
        self._since = begin
        is_frame = len(refused) >= OVERHEAD and frame_size_at(refused, 0) > 0
        if is_frame and begin != self._refused_at:  # only out of order
            self._refused_at = begin
            found.append(fault)
            self._reader = _reader(begin)
            return refused
        self._offset += 1
        return refused[1:]

    def _seek(self, data: bytes, found: list[Amqp010Frames | UnreadableBytes]) -> bytes:
        """Search for the next frame, and return the bytes from there."""
        if self._to_skip:
            skipped = min(self._to_skip, len(data))
            self._to_skip -= skipped
            self._offset += skipped
            if self._to_skip:
                return b""
            if self._body:
                self._finish_body(found)
            elif len(data) < skipped + OVERHEAD or frame_size_at(data, skipped):
                found += self._report(self._offset)
                self._reader = _reader(self._offset)
            return data[skipped:]
        search = self._search = self._search or FrameSearch(self._offset)
        is_sure = search.feed(data)
        self._offset = search.offset
        if is_sure or _is_frame(search.held):
            self._search = None
            found += self._report(self._offset)
            self._reader = _reader(self._offset)
            return search.held
        return b""

    def _end_of_held(self) -> int:
        return self._offset + (0 if self._search is None else len(self._search.held))

    def _lose_place(self, fault: UnreadableBytes, *, forgets: bool = True) -> None:
        assert self._reader is not None
        self._since = self._offset = self._reader.offset
        self._reader = None
        self._fault = fault
        self._search = None
        self._to_skip = 0
        self._body = b""
        if forgets:
            self._numbering.forget()

    def _finish_body(self, found: list[Amqp010Frames | UnreadableBytes]) -> None:
        """Resume reading after a body with missing bytes."""
        known, self._body = self._body, b""
        size = int.from_bytes(known[2:4])
        frame = Frame(known.ljust(size, b"\x00"), self._since, size - len(known))
        found.append(Amqp010Frames([frame], [self._numbering.number(frame)]))
        self._reader = _reader(self._offset)

    def _report(self, upto: int) -> list[UnreadableBytes]:
        lost = upto - self._since
        if not lost:
            return []
        self._fault.lost = lost
        return [self._fault]


def _reader(offset: int) -> FrameReader:
    """Return a reader that accepts any first frame on each track."""
    return FrameReader(frame_max=0, offset=offset, is_midstream=True)


def _is_frame(held: bytes) -> bool:
    """Whether a possible frame ends exactly at the end of the bytes, as the last frame of a segment does."""
    return len(held) >= OVERHEAD and frame_size_at(held, 0) == len(held)
