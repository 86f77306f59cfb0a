"""The bytes of a capture file as a window that moves forward: plain or gzip, file or pipe.

Nothing here seeks, and no more than a chunk and one packet is ever in memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO

from amqproxy.capture.warnings import CaptureError, CaptureWarning, OnWarning, WarningKind

CHUNK_BYTES = 256 * 1024
"""How much is read, and how much is inflated, at a time."""

GZIP_MAGIC = b"\x1f\x8b\x08"


class ByteWindow:
    """A window on a stream of bytes.

    Readers take `buffer[position:]` and move `position`; `need` makes more of it readable.
    """

    __slots__ = ("_before", "_chunks", "_notify", "buffer", "cut", "file", "position")

    def __init__(self, file: str, source: BinaryIO, notify: OnWarning) -> None:
        self.file = file
        self.buffer = b""
        self.position = 0
        self.cut = False
        """Whether the gzip data ended before its end: what is here is not all there was."""
        self._before = 0
        self._notify = notify
        self._chunks = _chunks(source)
        if self.need(len(GZIP_MAGIC)) and self.buffer.startswith(GZIP_MAGIC):
            packed = chain([self.buffer], self._chunks)
            self.buffer = b""
            self._chunks = self._inflated(packed)

    @property
    def offset(self) -> int:
        """Where `position` is in the whole stream."""
        return self._before + self.position

    @property
    def left(self) -> int:
        """Bytes readable without asking for more."""
        return len(self.buffer) - self.position

    def need(self, count: int) -> bool:
        """Make `count` bytes readable at `position`; False if the stream ends before that."""
        held = len(self.buffer) - self.position
        if held >= count:
            return True
        pieces = [self.buffer[self.position :]]
        for chunk in self._chunks:
            pieces.append(chunk)
            held += len(chunk)
            if held >= count:
                break
        self._before += self.position
        self.position = 0
        self.buffer = b"".join(pieces)
        return held >= count

    def error(self, reason: str, remedy: str) -> CaptureError:
        """An error about the bytes at `position`."""
        return CaptureError(self.file, self.offset, reason, remedy)

    def notice(self, kind: WarningKind, text: str) -> None:
        """Report a warning about the bytes at `position`."""
        self._notify(CaptureWarning(kind, self.file, self.offset, text))

    def _inflated(self, packed: Iterator[bytes]) -> Iterator[bytes]:
        """The bytes of one or more gzip members."""
        member = zlib.decompressobj(zlib.MAX_WBITS | 16)
        fresh = False
        for piece in packed:
            left = piece
            while left:
                if fresh:
                    left = left.lstrip(b"\0")
                    if left and left[0] != GZIP_MAGIC[0]:
                        self.notice(WarningKind.TRAILING, "rubbish after the gzip data is ignored")
                        return
                try:
                    inflated = member.decompress(left, CHUNK_BYTES)
                except zlib.error as broken:
                    raise CaptureError(
                        self.file,
                        self._before + len(self.buffer),
                        f"its gzip data is damaged ({broken})",
                        "copy the file again, or decode what `gzip -dc` saves of it",
                    ) from None
                if left:
                    fresh = False
                if inflated:
                    yield inflated
                left = member.unconsumed_tail
                if member.eof:
                    left = member.unused_data
                    member = zlib.decompressobj(zlib.MAX_WBITS | 16)
                    fresh = True
        if not fresh:
            self.cut = True
            rest = member.flush()
            if rest:
                yield rest


def _chunks(source: BinaryIO) -> Iterator[bytes]:
    """What `source` gives, as it comes: a pipe is not waited on until a chunk is full."""
    read = getattr(source, "read1", source.read)
    while chunk := read(CHUNK_BYTES):
        yield chunk
