"""Progress of reading a capture: one line on a terminal, erased at the end."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from types import TracebackType

INTERVAL = 0.25
"""Delay before the line appears and between its updates, in seconds."""

ERASE = "\r\x1b[K"


def is_terminal(stream: TextIO | None) -> bool:
    """Whether the stream is a terminal that can erase a line."""
    return stream is not None and os.environ.get("TERM") != "dumb" and stream.isatty()


class Progress:
    """Shows on standard error, if that is a terminal, how much of the captures in `files` has been read.

    The share counts bytes on disk, compressed or not; for a pipe of unknown size, the number of bytes is shown.
    `detail` is text to show after it. `is_in_the_way` while the line is where output would go: `clear` erases it.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self.is_in_the_way = False
        self.detail: Callable[[], str] = str
        self._is_wanted = is_terminal(sys.stderr)
        self._name = ""
        self._size = 0
        self._read = 0
        self._shares_terminal = is_terminal(sys.stdout)
        self._is_shown = False
        self._last = time.monotonic()
        if self._is_wanted:
            self._measure(files)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.clear()

    def advance(self, count: int) -> None:
        """Note that `count` more bytes were read: an `OnRead`."""
        self._read += count
        self.refresh()

    def refresh(self) -> None:
        """Update the line, if it is time."""
        if not self._is_wanted:
            return
        now = time.monotonic()
        if now - self._last >= INTERVAL:
            self._last = now
            self._show()

    def clear(self) -> None:
        """Erase the line until the next update."""
        if self._is_shown:
            self._write(ERASE)
            self._is_shown = self.is_in_the_way = False

    def _measure(self, files: Sequence[Path]) -> None:
        """Measure the files; the reader reports missing ones."""
        from amqproxy.capture.files import files_of, name_of
        from amqproxy.capture.warnings import CaptureError

        try:
            sizes = [_size(Path(str(file.source))) for file in files_of(files)]
        except CaptureError:
            self._is_wanted = False
            return
        self._size = sum(sizes) if all(size is not None for size in sizes) else 0  # type: ignore[arg-type]
        self._name = "".join(each if each.isprintable() else "?" for each in name_of(files))

    def _show(self) -> None:
        share = f"{min(self._read * 100 // self._size, 100):3} %" if self._size else f"{self._read / 1e6:,.1f} MB"
        columns = shutil.get_terminal_size().columns
        self._write(f"{ERASE}{f'{share} of {self._name}{self.detail()}'[: columns - 1]}")
        self._is_shown = True
        self.is_in_the_way = self._shares_terminal

    def _write(self, text: str) -> None:
        with suppress(OSError):  # standard error may be closed
            sys.stderr.write(text)
            sys.stderr.flush()


def _size(file: Path) -> int | None:
    """Return the size of a file in bytes; `None` if unknown, as for a pipe."""
    if str(file) == "-":
        return None
    try:
        found = file.stat()
    except (OSError, ValueError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
