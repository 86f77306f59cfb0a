"""Page files: transient messages that do not fit in memory.

It outlives nothing: its files have no names, so they are gone when the process is, and no write is waited for.
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from amqproxy.broker.storage.packing import PackedMessage, pack, unpack
from amqproxy.process.log import logger

FILE_BYTES = 64 * 1024 * 1024
"""Size in bytes at which a file is full; a file is freed only with its last block, so it must not be too large."""

_ROW = struct.Struct(">QdQI")


class PageFile:
    """One file, which is written at its end; `blocks` is how many in it are still wanted."""

    __slots__ = ("blocks", "descriptor", "size")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.size = 0
        self.blocks = 0

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    __del__ = close


class PageBlock(NamedTuple):
    """Messages paged out together: their place in the file, first and last position, number, and size."""

    file: PageFile
    at: int
    length: int
    first: int
    last: int
    messages: int
    body_bytes: int


class PageFiles:
    """Blocks of messages in files in `directory`. The caller's thread does the work; `OSError` when the disk does not,
    which is logged the first time.

    Its first file is made when it is needed. `size` is what all of them take.
    """

    def __init__(self, directory: Path, *, file_size: int = FILE_BYTES) -> None:
        self.directory = directory
        self._file_size = file_size
        self._files: dict[PageFile, None] = {}
        self._last: PageFile | None = None
        self._has_failed = False

    @property
    def size(self) -> int:
        return sum(file.size for file in self._files)

    def put(self, rows: Sequence[PackedMessage]) -> PageBlock:
        """Write messages, at least one: all of them or, with an `OSError`, none."""
        try:
            block = self._put(rows)
        except OSError as error:
            if not self._has_failed:
                logger().error("cannot page out", path=str(self.directory), reason=str(error))
            self._has_failed = True
            raise
        self._has_failed = False
        return block

    def _put(self, rows: Sequence[PackedMessage]) -> PageBlock:
        parts: list[bytes] = []
        body_bytes = 0
        for position, expires_at, delivery_count, message, *_ in rows:
            content = pack(message)
            parts += (_ROW.pack(position, expires_at, delivery_count, len(content)), content)
            body_bytes += len(message.body)
        whole = b"".join(parts)
        file = self._last
        if file is None or file.size >= self._file_size:
            file = self._new_file()
        at = file.size
        done = 0
        while done < len(whole):
            done += os.pwrite(file.descriptor, memoryview(whole)[done:], at + done)
        file.size += done
        file.blocks += 1
        return PageBlock(file, at, done, rows[0].position, rows[-1].position, len(rows), body_bytes)

    def _new_file(self) -> PageFile:
        with tempfile.TemporaryFile(dir=self.directory, buffering=0) as made:
            file = self._last = PageFile(os.dup(made.fileno()))
        self._files[file] = None
        return file

    def read(self, block: PageBlock) -> list[PackedMessage]:
        """Return the messages of a block, which stays in the file; a read failure is logged and raised."""
        try:
            return self._read(block)
        except Exception as error:
            logger().error("cannot page in", path=str(self.directory), reason=str(error), messages=block.messages)
            raise

    def _read(self, block: PageBlock) -> list[PackedMessage]:
        whole = b""
        while len(whole) < block.length:
            some = os.pread(block.file.descriptor, block.length - len(whole), block.at + len(whole))
            if not some:
                raise OSError(f"a file in {self.directory} has been cut short")
            whole += some
        rows = []
        at = 0
        for _ in range(block.messages):
            position, expires_at, delivery_count, length = _ROW.unpack_from(whole, at)
            at += _ROW.size
            rows.append(PackedMessage(position, expires_at, delivery_count, unpack(whole[at : at + length])))
            at += length
        return rows

    def drop(self, block: PageBlock) -> None:
        """Drop a block, and close its file after the last one."""
        file = block.file
        file.blocks -= 1
        if file.blocks or file not in self._files:
            return
        if file is self._last:
            self._last = None
        del self._files[file]
        file.close()

    def close(self) -> None:
        """Close all files, which discards their contents."""
        for file in self._files:
            file.close()
        self._files.clear()
        self._last = None
