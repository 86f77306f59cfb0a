"""The frames of one chunk of bytes, which are only made when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from amqproxy.amqp091.frame import Frame, count_frames, every_frame


class FrameChunk(Sequence[Frame]):
    """The whole frames in `data`, which lie at `offset`; made once, when they are first asked for.

    `is_in_order` as in `Frame`, for all of them; `zero_copy` as in `every_frame`.
    """

    __slots__ = ("_count", "_frames", "_is_in_order", "_zero_copy", "data", "offset")

    def __init__(
        self, data: bytes, offset: int, count: int = -1, is_in_order: bool = True, zero_copy: bool = False
    ) -> None:
        self.data = data
        self.offset = offset
        self._count = count
        self._is_in_order = is_in_order
        self._zero_copy = zero_copy
        self._frames: list[Frame] | None = None

    def unmade(self) -> FrameChunk:
        """The same frames, to be made again: for who keeps them for long, and may never ask."""
        return FrameChunk(self.data, self.offset, len(self), self._is_in_order, self._zero_copy)

    def __bool__(self) -> bool:
        return bool(self.data)

    def __len__(self) -> int:
        if self._count < 0:
            self._count = count_frames(self.data)
        return self._count

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
            self._frames = every_frame(self.data, self.offset, is_in_order=self._is_in_order, zero_copy=self._zero_copy)
        return self._frames
