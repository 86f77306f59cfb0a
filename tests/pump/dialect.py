"""What the two ends of a conversation send each other, in either protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import ClassVar, Protocol

Exchange = tuple[bytes, bytes]
"""What the client asks, and what the broker answers."""

HEAD = 7
"""Bytes of a frame within which both protocols have its size."""


class Dialect(Protocol):
    """One protocol's bytes for the same conversation."""

    header: ClassVar[bytes]
    """What the client begins with."""
    answer: ClassVar[bytes]
    """What the broker puts before its first frame."""
    start: ClassVar[bytes]
    tune: ClassVar[bytes]
    tune_ok: ClassVar[bytes]
    open_ok: ClassVar[bytes]
    close: ClassVar[bytes]
    close_ok: ClassVar[bytes]
    forced: ClassVar[bytes]
    """How the frame begins that a proxy ends a leg with whose other leg is gone; its size is at `forced_size`."""
    forced_size: ClassVar[slice]

    def start_ok(self, name: str) -> bytes:
        """The client's answer to the start; the broker finds its `name` in it."""

    def open_channel(self, channel: int) -> Exchange: ...

    def close_channel(self, channel: int) -> Exchange: ...

    def declare(self, channel: int) -> Exchange: ...

    def frame_size(self, head: bytes) -> int:
        """Of the whole frame that begins with these `HEAD` bytes."""

    def random_commands(
        self, dice: Random, is_server: bool, sizes: Sequence[int], channels: Sequence[int], most: int = 6
    ) -> bytes:
        """A few commands on each of the channels."""

    def kinds(self, data: bytes, contents: dict[int, str]) -> Iterator[tuple[str, str, bool]]:
        """The type and the method of each frame, as metrics count them, and whether a message begins with it.

        `contents` are what the sender's frames before have begun.
        """
