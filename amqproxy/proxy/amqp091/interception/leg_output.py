"""Output for one peer: slices of a received chunk, with inserted bytes between them."""

from __future__ import annotations

from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.frame_reader import FrameReader


class LegOutput:
    """Collector of the bytes for one peer.

    Between `begin` and `end`, a chunk from the other peer is processed in order. Contiguous bytes that are forwarded,
    frames or unexamined, become one slice without copying. Other bytes are appended behind the slices before them.
    """

    __slots__ = ("_end", "_parts", "_reader", "_start", "position")

    def __init__(self) -> None:
        self._parts: list[bytes | memoryview] = []
        self._reader: FrameReader | None = None
        self._start = self._end = 0
        self.position = 0
        """Offset up to which the chunk has been processed."""

    def begin(self, reader: FrameReader) -> None:
        """Start processing the chunk that a reader has taken."""
        self._reader = reader
        self.position = self._start = self._end = reader.taken_from

    def end(self) -> None:
        """Finish the chunk, discarding its unprocessed rest."""
        self._close_slice()
        self._reader = None

    def pass_up_to(self, offset: int) -> None:
        """Forward all unprocessed bytes before `offset`."""
        if offset > self.position:
            if self._end != self.position:
                self._close_slice()
                self._start = self.position
            self._end = self.position = offset

    def skip_to(self, offset: int) -> None:
        """Mark the bytes before `offset` as processed: they were sent, dropped, or queued elsewhere."""
        if offset > self.position:
            self.position = offset

    def send(self, frame: Frame) -> None:
        """Send a frame, whether it was just received, queued before, or made by the proxy."""
        offset = frame.offset
        if self._reader is None or offset < self._end:
            self.append(frame.raw)
            return
        if offset > self._end:
            self._close_slice()
            self._start = offset
        self._end = offset + frame.length()

    def append(self, data: bytes | memoryview) -> None:
        """Send bytes that are not those of a received frame."""
        self._close_slice()
        self._parts.append(data)

    @property
    def is_ready(self) -> bool:
        """Whether bytes are ready to be sent."""
        return bool(self._parts)

    def take(self) -> bytes | memoryview:
        """Take all bytes that are ready to be sent."""
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
