"""What is to be sent to one peer: what it gets of a chunk, as that lies there, and what is put between."""

from __future__ import annotations

from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.frame_reader import FrameReader


class LegOutput:
    """Collects the bytes for one peer.

    Between `begin` and `end` a chunk of what the other peer sends is gone through in order. What is contiguous and sent
    on, frames or unexamined bytes, becomes one slice: nothing is copied. All else is put behind what was there before.
    """

    __slots__ = ("_end", "_parts", "_reader", "_start", "position")

    def __init__(self) -> None:
        self._parts: list[bytes | memoryview] = []
        self._reader: FrameReader | None = None
        self._start = self._end = 0
        self.position = 0
        """Up to where the chunk has been gone through."""

    def begin(self, reader: FrameReader) -> None:
        """Go through what a reader has taken."""
        self._reader = reader
        self.position = self._start = self._end = reader.taken_from

    def end(self) -> None:
        """The rest of the chunk goes no further."""
        self._close_slice()
        self._reader = None

    def pass_up_to(self, offset: int) -> None:
        """All that lies before `offset`, and was not gone through yet, goes on."""
        if offset > self.position:
            if self._end != self.position:
                self._close_slice()
                self._start = self.position
            self._end = self.position = offset

    def skip_to(self, offset: int) -> None:
        """What lies before `offset` has been gone through: it was sent, or goes no further, or not yet."""
        if offset > self.position:
            self.position = offset

    def send(self, frame: Frame) -> None:
        """A frame goes on, whether it was received just now, or before, or was made."""
        offset = frame.offset
        if self._reader is None or offset < self._end:
            self.append(frame.raw)
            return
        if offset > self._end:
            self._close_slice()
            self._start = offset
        self._end = offset + frame.length()

    def append(self, data: bytes | memoryview) -> None:
        """Send bytes that are not those of a frame which was received."""
        self._close_slice()
        self._parts.append(data)

    def take(self) -> bytes | memoryview:
        """All that is to be sent now."""
        parts = self._parts
        if not parts:
            return b""
        self._parts = []
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _close_slice(self) -> None:
        if self._start < self._end:
            assert self._reader is not None
            self._parts.append(self._reader.between(self._start, self._end))
            self._start = self._end
