"""Files that other programs replace: certificates, users, tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

Fingerprint = tuple[int, int, int] | None
"""Identity of a file's content: its inode, size and modification time; `None` if it is missing."""


class WatchedFiles:
    """State of files at the last check."""

    def __init__(self, files: Callable[[], Iterable[str]]) -> None:
        """`files` is called each time, since the files may change."""
        self._files = files
        self._known: dict[str, Fingerprint] = {}

    def have_changed(self) -> bool:
        """Whether an existing file was replaced or modified since the last check; a new file does not count."""
        before, self._known = self._known, {file: _fingerprint(Path(file)) for file in self._files()}
        return any(now not in (None, before.get(file, now)) for file, now in self._known.items())


def _fingerprint(file: Path) -> Fingerprint:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
