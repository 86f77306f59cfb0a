"""The frames of one chunk of bytes, which are only made when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from amqproxy.amqp091.frame import Frame, count_frames, every_frame


class FrameChunk(Sequence[Frame]):
    """The whole frames in `data`, which lie at `offset`; made once, when they are first asked for.

    `is_in_order` as in `Frame`, for all of them; `zero_copy` as in `every_frame`. Of a memoryview, whose bytes may be
    others once the call is over that is given this, the bytes are copied when they are first asked for: that nothing
    but their number is asked for costs next to nothing. `unmade` is what may be kept.
    """

    __slots__ = ("_bytes", "_count", "_frames", "_is_in_order", "_zero_copy", "offset")

    def __init__(
        self, data: bytes | memoryview, offset: int, count: int = -1, is_in_order: bool = True, zero_copy: bool = False
    ) -> None:
        self._bytes = data
        self.offset = offset
        self._count = count
        self._is_in_order = is_in_order
        self._zero_copy = zero_copy
        self._frames: list[Frame] | None = None

    @property
    def data(self) -> bytes:
        """The bytes of the frames."""
        if not isinstance(self._bytes, bytes):
            self._bytes = bytes(self._bytes)
        return self._bytes

    @property
    def size(self) -> int:
        """How many bytes they are."""
        return len(self._bytes)

    def unmade(self) -> FrameChunk:
        """The same frames, to be made again: for who keeps them for long, and may never ask."""
        return FrameChunk(self.data, self.offset, len(self), self._is_in_order, self._zero_copy)

    def parts(self, most: int) -> Iterator[FrameChunk]:
        """The same frames in chunks of so many at most."""
        data, start, end = self.data, 0, 0
        while start < len(data):
            count = 0
            while count < most and end < len(data):
                end += 8 + int.from_bytes(data[end + 3 : end + 7])
                count += 1
            yield FrameChunk(data[start:end], self.offset + start, count, self._is_in_order, self._zero_copy)
            start = end

    def __bool__(self) -> bool:
        return len(self._bytes) > 0

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
