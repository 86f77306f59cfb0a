"""0-9-1 frames in the form shown to taps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from amqproxy.amqp091.frame import Frame, count_frames, every_frame
from amqproxy.amqp091.protocol_header import NAME
from amqproxy.taps.frame_chunk import BODY, FrameChunk
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.record import Record, record_frame


class Amqp091Chunk(FrameChunk[Frame]):
    """The whole frames in `data`, which lie at `offset`.

    `is_in_order` is as in `Frame`, for all of them; `zero_copy` as in `every_frame`. The bytes of a memoryview, which
    may change once the call that is given the chunk returns, are copied on first access: asking only for their number
    costs next to nothing.
    """

    __slots__ = ("_bytes", "_count", "_is_in_order", "_zero_copy", "offset")

    protocol = NAME

    def __init__(
        self, data: bytes | memoryview, offset: int, count: int = -1, is_in_order: bool = True, zero_copy: bool = False
    ) -> None:
        self._bytes = data
        self.offset = offset
        self._count = count
        self._is_in_order = is_in_order
        self._zero_copy = zero_copy
        self._frames: Sequence[Frame] | None = None

    @property
    def data(self) -> bytes:
        if not isinstance(self._bytes, bytes):
            self._bytes = bytes(self._bytes)
        return self._bytes

    @property
    def size(self) -> int:
        return len(self._bytes)

    def unmade(self) -> Amqp091Chunk:
        return Amqp091Chunk(self.data, self.offset, len(self), self._is_in_order, self._zero_copy)

    def parts(self, most: int) -> Iterator[Amqp091Chunk]:
        data, start, end = self.data, 0, 0
        while start < len(data):
            count = 0
            while count < most and end < len(data):
                end += 8 + int.from_bytes(data[end + 3 : end + 7])
                count += 1
            yield Amqp091Chunk(data[start:end], self.offset + start, count, self._is_in_order, self._zero_copy)
            start = end

    def chosen(self, frames: Sequence[Frame], command_ids: Sequence[int | None]) -> Amqp091Frames:
        return Amqp091Frames(frames)

    def records(self, note: Note = NOTHING, body: int = 0, **where: Any) -> Iterator[Record]:
        return _records(self, note, body, where)

    def __bool__(self) -> bool:
        return len(self._bytes) > 0

    def __len__(self) -> int:
        if self._count < 0:
            self._count = count_frames(self.data)
        return self._count

    def _make(self) -> Sequence[Frame]:
        return every_frame(self.data, self.offset, is_in_order=self._is_in_order, zero_copy=self._zero_copy)


class Amqp091Frames(FrameChunk[Frame]):
    """Frames that are made already, and need not be contiguous."""

    __slots__ = ()

    protocol = NAME

    def __init__(self, frames: Sequence[Frame]) -> None:
        self._frames: Sequence[Frame] | None = frames

    @property
    def data(self) -> bytes:
        return b"".join([frame.raw for frame in self])

    @property
    def size(self) -> int:
        return sum([frame.length() for frame in self])

    def unmade(self) -> Amqp091Frames:
        return self

    def parts(self, most: int) -> Iterator[Amqp091Frames]:
        return (Amqp091Frames(self[start : start + most]) for start in range(0, len(self), most))

    def chosen(self, frames: Sequence[Frame], command_ids: Sequence[int | None]) -> Amqp091Frames:
        return Amqp091Frames(frames)

    def memory(self, frame_cost: int, decoded_factor: int) -> int:
        return sum([frame_cost + (frame.size if frame.kind == BODY else decoded_factor * frame.size) for frame in self])

    def records(self, note: Note = NOTHING, body: int = 0, **where: Any) -> Iterator[Record]:
        return _records(self, note, body, where)

    def __len__(self) -> int:
        return len(self._made())

    def _make(self) -> Sequence[Frame]:
        return ()


def _records(frames: Sequence[Frame], note: Note, body: int, where: dict[str, Any]) -> Iterator[Record]:
    for frame in frames:
        yield record_frame(frame, note=note, body=body, **where)
