"""Frames of one direction that passed together, in the form shown to taps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self, TypeVar, overload

from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.record import Record

BODY = 3
"""The kind of a body frame, in every version of AMQP before 1.0."""

F = TypeVar("F")


class FrameChunk(Sequence[F]):
    """Whole frames of one direction, made once, on first access; each protocol has a class.

    A chunk may lie in memory that changes once the tap returns: a tap that keeps it must keep the result of `unmade`.
    """

    __slots__ = ("_frames",)

    protocol: ClassVar[str]

    command_ids: Sequence[int | None] = ()
    """The id of each frame's command, `None` if it has none or that is unknown; empty if the protocol has none."""

    _frames: Sequence[F] | None

    @property
    @abstractmethod
    def data(self) -> bytes:
        """The bytes of the frames."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of bytes of the frames."""

    @abstractmethod
    def unmade(self) -> Self:
        """Return a chunk of the same frames that can be kept, none of them made."""

    @abstractmethod
    def parts(self, most: int) -> Iterator[Self]:
        """Yield these frames in chunks of at most `most`."""

    @abstractmethod
    def chosen(self, frames: Sequence[F], command_ids: Sequence[int | None]) -> FrameChunk[F]:
        """Return a chunk of some of these frames, or of earlier ones, and the ids of their commands."""

    def noted_parts(self, most: int, note: Note) -> Iterator[tuple[Self, Note]]:
        """Yield `parts` with their notes: only the last part can end a content whose rest is not shown."""
        before_last, left = note.before_last, len(self)
        for part in self.parts(most):
            left -= len(part)
            yield part, before_last if left else note

    def memory(self, frame_cost: int, decoded_factor: int) -> int:
        """Return the approximate memory of the kept frames, in bytes.

        Frames that are separate objects take `frame_cost` each, and all except body frames `decoded_factor` times their
        size.
        """
        return self.size

    @abstractmethod
    def records(self, note: Note = NOTHING, body: int = 0, **where: Any) -> Iterator[Record]:
        """Yield the record of each frame, with the first `body` bytes of body frames."""

    @abstractmethod
    def _make(self) -> Sequence[F]:
        """Make the frames."""

    @overload
    def __getitem__(self, index: int) -> F: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[F]: ...

    def __getitem__(self, index: int | slice) -> F | Sequence[F]:
        return self._made()[index]

    def __iter__(self) -> Iterator[F]:
        return iter(self._made())

    def _made(self) -> Sequence[F]:
        if self._frames is None:
            self._frames = self._make()
        return self._frames
