"""The output file of an export, written completely or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

_MOST_CHARACTERS = 60
"""Length of the partial file's name: the final name may be as long as the file system allows."""


class FileExists(Exception):
    """A file of that name exists and must not be replaced."""


class OutputFile:
    """A file that is written beside its final path and moved there when complete; a failure leaves nothing.

    An existing file raises `FileExists` unless it `replaces` it. `OSError` if the file cannot be written; an unusable
    directory is detected in the constructor. A link is followed to its file; a device or a pipe is neither replaced nor
    an obstacle: it is written to as the data comes.
    """

    def __init__(self, path: Path, *, replaces: bool = False) -> None:
        self._named = path
        self._is_special = path.exists() and not path.is_file() and not path.is_dir()
        self._path = path if self._is_special else path.resolve()
        self._replaces = replaces
        self._check()
        if not self._is_special:
            os.stat(os.path.join(self._path.parent, ""))  # noqa: PTH116, PTH118 - of a file in its place, too
            if not os.access(self._path.parent, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        self._partial = self._path.with_name(f".{os.getpid()}.{self._path.name}"[:_MOST_CHARACTERS] + ".partial")
        self._file: BinaryIO | None = None

    def __enter__(self) -> BinaryIO:
        self._file = self._path.open("wb") if self._is_special else self._partial.open("xb")
        return self._file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._file is not None
        if self._is_special:
            self._file.close()
            return
        try:
            if error is None:
                self._file.flush()
                os.fsync(self._file.fileno())
            self._file.close()
            if error is None:
                self._check()
                self._partial.replace(self._path)
        finally:
            self._partial.unlink(missing_ok=True)

    def _check(self) -> None:
        if self._path.is_dir():
            raise FileExists(f"{self._named} is a directory")
        if not self._replaces and not self._is_special and (self._path.exists() or self._named.is_symlink()):
            raise FileExists(f"{self._named} is there already")
