"""Compressed captures: gzip, zstd and lz4, decompressed in streaming, at most a chunk at a time.

lz4 needs a library of the extra `captures`.
"""

from __future__ import annotations

import importlib
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import msgspec

if sys.version_info >= (3, 14):
    from compression import zstd as zstd
else:
    from backports import zstd as zstd

CHUNK_BYTES = 256 * 1024
"""Bytes that are decompressed at a time."""
SLICE_BYTES = 4096
"""Bytes passed to a decompressor at a time; the content of a damaged slice before the damage is lost."""

MAGIC_BYTES = 4

_SKIPPABLE = frozenset(bytes([number, 0x2A, 0x4D, 0x18]) for number in range(0x50, 0x60))
"""Magic numbers of skippable frames of zstd and lz4, which hold no data: pzstd begins with one."""


class Decompressor(Protocol):
    """One member of a compressed file (gzip's term; for zstd and lz4 it is a frame), with the interface of `bz2`."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes | None: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class Compression(msgspec.Struct, frozen=True):
    """A compression format: its `name`, which is also its program's, and the magic numbers of its files."""

    name: str
    magics: frozenset[bytes]
    suffix: str
    library: str
    """The package to install for it; empty if none is needed."""
    decompressor: Callable[[], Decompressor]
    """Creates a decompressor for each member; `ImportError` if the library is missing."""
    errors: Callable[[], tuple[type[Exception], ...]]
    """Exceptions that a decompressor raises for damaged data."""


class Damaged(Exception):
    """The rest of the compressed data is damaged."""


class _GzipMember:
    """`zlib` with the interface of the other decompressors."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(zlib.MAX_WBITS | 16)

    @property
    def eof(self) -> bool:
        return self._member.eof

    @property
    def needs_input(self) -> bool:
        return not self._member.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._member.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._member.decompress(self._member.unconsumed_tail + data, max_length)


def _lz4() -> Any:
    return importlib.import_module("lz4.frame")


GZIP = Compression("gzip", frozenset({b"\x1f\x8b\x08"}), ".gz", "", _GzipMember, lambda: (zlib.error,))
ZSTD = Compression(
    "zstd",
    frozenset({b"\x28\xb5\x2f\xfd"}) | _SKIPPABLE,
    ".zst",
    "",
    zstd.ZstdDecompressor,
    lambda: (zstd.ZstdError,),
)
LZ4 = Compression(
    "lz4",
    frozenset({b"\x04\x22\x4d\x18"}) | _SKIPPABLE,
    ".lz4",
    "lz4",
    lambda: _lz4().LZ4FrameDecompressor(),
    lambda: (RuntimeError,),
)
COMPRESSIONS = (GZIP, ZSTD, LZ4)


def compression_of(start: bytes) -> Compression | None:
    """Return the compression of a file that begins with `start`; None if it is not compressed.

    A file that begins with a skippable frame is taken for zstd, whose tools write such.
    """
    return next((each for each in COMPRESSIONS if start.startswith(tuple(each.magics))), None)


class Decompression:
    """The bytes of a compressed stream of one or more members.

    After the last member, `is_cut` is true if the stream ended within a member, and `has_rubbish` if other data
    followed the members, which was not read.
    """

    def __init__(self, compression: Compression) -> None:
        self.is_cut = False
        self.has_rubbish = False
        self._compression = compression
        self._make = compression.decompressor
        self._make()  # detects a missing library early
        self._errors = compression.errors()

    def chunks(self, packed: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the decompressed content of `packed`; `Damaged` at damaged data, after the content before it."""
        member: Decompressor | None = None
        start = b""  # beginning of the next member
        for piece in packed:
            data, at = piece, 0
            while at < len(data):
                if member is None:
                    start = (start + data[at:]).lstrip(b"\0")  # gzip files may be padded with zeros
                    if len(start) < MAGIC_BYTES:
                        break
                    if not start.startswith(tuple(self._compression.magics)):
                        self.has_rubbish = True
                        return
                    member = self._make()
                    data, at, start = start, 0, b""
                part = data[at : at + SLICE_BYTES]
                at += len(part)
                yield from self._decompressed(member, part)
                if member.eof:
                    at -= len(member.unused_data or b"")
                    member = None
        self.is_cut = member is not None
        if start:
            self.has_rubbish = True

    def _decompressed(self, member: Decompressor, part: bytes) -> Iterator[bytes]:
        try:
            while True:
                out = member.decompress(part, CHUNK_BYTES)
                if out:
                    yield out
                part = b""
                if member.eof or (member.needs_input and len(out) < CHUNK_BYTES):
                    return
        except self._errors as error:
            raise Damaged(str(error)) from None
