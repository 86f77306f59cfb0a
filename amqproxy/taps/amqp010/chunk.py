"""The frames of one chunk of bytes of AMQP 0-10, with the ids of their commands; made when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from amqproxy.amqp010.frame import Frame


class Amqp010Chunk(Sequence[Frame]):
    """The whole frames in `data`, which lie at `offset`.

    `command_ids` has for each frame the id of the command that it is of; None of a control, and where it is not known.
    Frames are made once, when they are first asked for; `unmade` is what may be kept for long.
    """

    __slots__ = ("_frames", "command_ids", "data", "offset")

    def __init__(self, data: bytes, offset: int, command_ids: Sequence[int | None]) -> None:
        self.data = data
        self.offset = offset
        self.command_ids = command_ids
        self._frames: list[Frame] | None = None

    @property
    def size(self) -> int:
        """How many bytes they are."""
        return len(self.data)

    def unmade(self) -> Amqp010Chunk:
        """The same frames, to be made again."""
        return Amqp010Chunk(self.data, self.offset, self.command_ids)

    def parts(self, most: int) -> Iterator[Amqp010Chunk]:
        """The same frames in chunks of so many at most."""
        data, start, place = self.data, 0, 0
        while place < len(self):
            ids = self.command_ids[place : place + most]
            end = start
            for _ in ids:
                end += int.from_bytes(data[end + 2 : end + 4])
            yield Amqp010Chunk(data[start:end], self.offset + start, ids)
            start = end
            place += len(ids)

    def __len__(self) -> int:
        return len(self.command_ids)

    @overload
    def __getitem__(self, index: int) -> Frame: ...

    @overload
    def __getitem__(self, index: slice) -> list[Frame]: ...

    def __getitem__(self, index: int | slice) -> Frame | list[Frame]:
        return self._made()[index]

    def __iter__(self) -> Iterator[Frame]:
        return iter(self._made())

    def _made(self) -> list[Frame]:
        if self._frames is None:
            self._frames = []
            data, start = self.data, 0
            for _ in self.command_ids:
                end = start + int.from_bytes(data[start + 2 : start + 4])
                self._frames.append(Frame(data[start:end], self.offset + start))
                start = end
        return self._frames
