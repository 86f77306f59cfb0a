"""How far a capture has been read: one line on a terminal, which is gone in the end."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import BinaryIO, TextIO, cast

INTERVAL = 0.25
"""Seconds before the line is shown, and between two changes of it."""

ERASE = "\r\x1b[K"


def is_terminal(stream: TextIO | None) -> bool:
    """Is it one that can erase a line?"""
    return stream is not None and os.environ.get("TERM") != "dumb" and stream.isatty()


class Progress:
    """Shows on standard error how far the capture `file` has been read, if that is a terminal, and its size is known.

    `is_in_the_way` while the line stands where output is to go: `clear` takes it away.
    """

    def __init__(self, file: Path) -> None:
        self.is_in_the_way = False
        self._file = file
        self._size = 0
        self._shares_terminal = is_terminal(sys.stdout)
        self._is_shown = False
        self._last = time.monotonic()

    @contextmanager
    def reading(self) -> Iterator[Path | BinaryIO]:
        """What to read the capture from."""
        self._size = _size(self._file) if is_terminal(sys.stderr) else 0
        if not self._size:
            yield self._file
            return
        try:
            opened = self._file.open("rb", buffering=0)
        except OSError:  # which the reader will report
            yield self._file
            return
        with opened:
            try:
                yield cast(BinaryIO, _Counted(opened, str(self._file), self._update))
            finally:
                self.clear()

    def clear(self) -> None:
        """Take the line away, until it is shown anew."""
        if self._is_shown:
            self._write(ERASE)
            self._is_shown = self.is_in_the_way = False

    def _update(self, read: int) -> None:
        now = time.monotonic()
        if now - self._last < INTERVAL:
            return
        self._last = now
        columns = shutil.get_terminal_size().columns
        name = "".join(each if each.isprintable() else "?" for each in str(self._file))
        text = f"{min(read * 100 // self._size, 100):3} % of {name}"
        self._write(f"{ERASE}{text[: columns - 1]}")
        self._is_shown = True
        self.is_in_the_way = self._shares_terminal

    def _write(self, text: str) -> None:
        with suppress(OSError):  # standard error may be closed
            sys.stderr.write(text)
            sys.stderr.flush()


class _Counted:
    """A file that counts how many bytes of it have been read."""

    def __init__(self, file: FileIO, name: str, report: Callable[[int], None]) -> None:
        self.name = name
        self._file = file
        self._report = report
        self._read = 0

    def read(self, size: int) -> bytes:
        found = self._file.read(size)
        self._read += len(found)
        self._report(self._read)
        return found


def _size(file: Path) -> int:
    """The bytes of a file; 0 where that cannot be known, as of a pipe."""
    try:
        found = file.stat()
    except (OSError, ValueError):
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0
