"""0-10 frames in the form shown to taps, with the ids of their commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.protocol_header import NAME
from amqproxy.taps.amqp010.record import record_amqp010_frame
from amqproxy.taps.frame_chunk import FrameChunk
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.record import Record

ID_COST = 40
"""Approximate memory of a command id, in bytes."""


class Amqp010Chunk(FrameChunk[Frame]):
    """The whole frames in `data`, which lie at `offset`.

    `command_ids` has an entry for each frame: `None` for a control, and if the id is unknown.
    """

    __slots__ = ("_bytes", "command_ids", "offset")

    protocol = NAME

    def __init__(self, data: bytes, offset: int, command_ids: Sequence[int | None]) -> None:
        self._bytes = data
        self.offset = offset
        self.command_ids = command_ids
        self._frames: Sequence[Frame] | None = None

    @property
    def data(self) -> bytes:
        return self._bytes

    @property
    def size(self) -> int:
        return len(self._bytes)

    def unmade(self) -> Amqp010Chunk:
        return Amqp010Chunk(self._bytes, self.offset, self.command_ids)

    def parts(self, most: int) -> Iterator[Amqp010Chunk]:
        data, start, place = self._bytes, 0, 0
        while place < len(self):
            ids = self.command_ids[place : place + most]
            end = start
            for _ in ids:
                end += int.from_bytes(data[end + 2 : end + 4])
            yield Amqp010Chunk(data[start:end], self.offset + start, ids)
            start = end
            place += len(ids)

    def chosen(self, frames: Sequence[Frame], command_ids: Sequence[int | None]) -> Amqp010Chunk:
        # Their bytes need not be adjacent; the offset is that of the first.
        return Amqp010Chunk(b"".join([frame.raw for frame in frames]), frames[0].offset, command_ids)

    def memory(self, frame_cost: int, decoded_factor: int) -> int:
        return len(self._bytes) + ID_COST * len(self.command_ids)

    def records(self, note: Note = NOTHING, body: int = 0, **where: Any) -> Iterator[Record]:
        for frame, command_id in zip(self, self.command_ids, strict=True):
            yield record_amqp010_frame(frame, command_id=command_id, note=note, body=body, **where)

    def __len__(self) -> int:
        return len(self.command_ids)

    def _make(self) -> Sequence[Frame]:
        frames: list[Frame] = []
        data, start = self._bytes, 0
        for _ in self.command_ids:
            end = start + int.from_bytes(data[start + 2 : start + 4])
            frames.append(Frame(data[start:end], self.offset + start))
            start = end
        return frames
