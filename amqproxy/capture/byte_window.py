"""The bytes of a capture file as a window that moves forward: plain or compressed, file or pipe.

Nothing here seeks, and at most a chunk and one packet is ever in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import BinaryIO, TypeAlias

from amqproxy.capture.compression import MAGIC_BYTES, Compression, Damaged, Decompression, compression_of
from amqproxy.capture.warnings import CaptureError, CaptureWarning, OnWarning, WarningKind

CHUNK_BYTES = 64 * 1024
"""Bytes read at a time: little enough that memory is reused, and not requested from the system each time."""

OnRead: TypeAlias = Callable[[int], None]
"""Receives the number of bytes just read from a file as stored on disk."""


def ignore_read(count: int) -> None:
    """Ignore the number of bytes read."""


OnSecrets: TypeAlias = Callable[[bytes], None]
"""Receives secrets of TLS sessions found in the file, in the format of SSLKEYLOGFILE."""


def ignore_secrets(key_log: bytes) -> None:
    """Ignore the TLS secrets of a capture: the default `OnSecrets`."""


class ByteWindow:
    """A window on a stream of bytes.

    Readers consume `buffer[position:]` and advance `position`; `need` makes more bytes readable.
    """

    __slots__ = ("_before", "_chunks", "_notify", "buffer", "cut", "file", "on_secrets", "position")

    def __init__(
        self,
        file: str,
        source: BinaryIO,
        notify: OnWarning,
        on_read: OnRead = ignore_read,
        on_secrets: OnSecrets = ignore_secrets,
    ) -> None:
        self.file = file
        self.buffer = b""
        self.position = 0
        self.cut = False
        """Whether the compressed data ended prematurely, so that the content is incomplete."""
        self.on_secrets = on_secrets
        self._before = 0
        self._notify = notify
        self._chunks = _chunks(source, on_read)
        self.need(MAGIC_BYTES)
        compression = compression_of(self.buffer)
        if compression is not None:
            packed = chain([self.buffer], self._chunks)
            self.buffer = b""
            self._chunks = self._decompressed(compression, packed)

    @property
    def offset(self) -> int:
        """The offset of `position` in the whole stream."""
        return self._before + self.position

    @property
    def left(self) -> int:
        """Bytes readable without requesting more."""
        return len(self.buffer) - self.position

    def need(self, count: int) -> bool:
        """Make `count` bytes readable at `position`; return False if the stream ends before that."""
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
        """Return an error about the bytes at `position`."""
        return CaptureError(self.file, self.offset, reason, remedy)

    def notice(self, kind: WarningKind, text: str, position: int | None = None) -> None:
        """Report a warning about the bytes at a position in the buffer, `self.position` by default."""
        at = self.position if position is None else position
        self._notify(CaptureWarning(kind, self.file, self._before + at, text))

    def _decompressed(self, compression: Compression, packed: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the bytes of a compressed file."""
        name = compression.name
        try:
            decompression = Decompression(compression)
        except ImportError:
            raise CaptureError(
                self.file,
                0,
                f"it is compressed with {name}, and the package {compression.library} is not installed",
                f"pip install 'amqproxy[captures]', or pipe it in: `{name} -dc FILE`, then read `-`",
            ) from None
        try:
            yield from decompression.chunks(packed)
        except Damaged as broken:
            raise CaptureError(
                self.file,
                self._before + len(self.buffer),
                f"its {name} data is damaged ({broken})",
                f"copy the file again, or decode what `{name} -dc` saves of it",
            ) from None
        self.cut = decompression.is_cut
        if decompression.has_rubbish:
            self.notice(WarningKind.TRAILING, f"rubbish after the {name} data is ignored")


def _chunks(source: BinaryIO, on_read: OnRead) -> Iterator[bytes]:
    """Yield bytes of `source` as they arrive: a pipe is not awaited until a chunk is full."""
    read = getattr(source, "read1", source.read)
    while chunk := read(CHUNK_BYTES):
        on_read(len(chunk))
        yield chunk
