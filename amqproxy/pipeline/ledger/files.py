"""Files of tables, on a disk or in a bucket."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from amqproxy.pipeline import storage
from amqproxy.pipeline.ledger.errors import LedgerError

PRIVATE = "_pipeline"
"""Private directory; Spark and notebooks ignore names with a leading underscore."""


class TableFiles:
    """Files below a directory or in a bucket, by relative paths; deleting a missing file is not an error."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._place = storage.place(root)

    def make_root(self) -> None:
        """Make the directory; raise `LedgerError`."""
        try:
            if not storage.is_remote(self.root):
                Path(self._place.path, PRIVATE).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LedgerError(f"{self.root} cannot be a directory of tables: {reason(error)}") from None

    def make_directory(self, path: str) -> str:
        """Make a directory on a disk, and return its absolute path."""
        made = Path(self._absolute(path))
        made.mkdir(parents=True, exist_ok=True)
        return str(made)

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted."""
        from pyarrow.fs import FileSelector

        found = self._place.files.get_file_info(FileSelector(self._absolute(directory), allow_not_found=True))
        return sorted(each.base_name for each in found if not each.base_name.endswith(".tmp"))

    def files_below(self, directory: str) -> list[str]:
        """Return all files below a directory, sorted."""
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self._absolute(directory), allow_not_found=True, recursive=True)
        found = self._place.files.get_file_info(selector)
        root = f"{self._place.path}/"
        return sorted(each.path.removeprefix(root) for each in found if each.type == FileType.File)

    def read(self, path: str) -> bytes:
        """Return the content of a file; raise `FileNotFoundError`."""
        with self._place.files.open_input_stream(self._absolute(path)) as stream:
            content: bytes = stream.read()
        return content

    def size(self, path: str) -> int:
        """Return the size of a file in bytes."""
        size: int = self._place.files.get_file_info(self._absolute(path)).size
        return size

    def rows(self, path: str) -> int:
        """Return the number of rows in a Parquet file."""
        from pyarrow import parquet

        count: int = parquet.read_metadata(self._absolute(path), filesystem=self._place.files).num_rows
        return count

    def write(self, path: str, content: bytes) -> None:
        """Write the whole file or nothing, so that it survives a loss of power."""
        if storage.is_remote(self.root):
            with self._place.files.open_output_stream(self._absolute(path)) as stream:
                stream.write(content)
            return
        target = Path(self._absolute(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f"{target.name}.tmp")
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        _sync(target.parent)

    def sync(self, paths: Iterable[str]) -> None:
        """Sync files and their names, so that they survive a loss of power."""
        if storage.is_remote(self.root):
            return
        files = [Path(self._absolute(path)) for path in paths]
        for each in [*files, *{file.parent for file in files}, *{file.parent.parent for file in files}]:
            _sync(each)

    def move(self, source: str, target: str) -> None:
        """Rename a file."""
        if not storage.is_remote(self.root):
            Path(self._absolute(target)).parent.mkdir(parents=True, exist_ok=True)
        self._place.files.move(self._absolute(source), self._absolute(target))

    def delete(self, path: str) -> None:
        """Delete a file."""
        with suppress(FileNotFoundError):
            self._place.files.delete_file(self._absolute(path))

    def delete_directory(self, path: str) -> None:
        """Delete a directory and its content."""
        with suppress(FileNotFoundError):
            self._place.files.delete_dir(self._absolute(path))

    def _absolute(self, path: str) -> str:
        return f"{self._place.path}/{path}"


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):  # not all file systems can sync a directory
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def reason(error: OSError) -> str:
    """Return the reason of an error in a line."""
    return error.strerror or str(error).partition("\n")[0]
