"""The complete recordings of a directory, of which the oldest are deleted."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path

from amqproxy.process.log import logger
from amqproxy.recording.recording_directory import COMPRESSED, reason_of

LOOKED_AT = 20
"""Recordings that each `keep` checks for external deletion."""

DELETED_AT_ONCE = 20
"""Upper bound on deletions in one `keep`, so that writing is not held up; the next call deletes more."""


class RecordingRing:
    """The newest recordings: at most `most_files` of `most_size` bytes in total, None for no bound; kept in memory.

    `found`, `compressed` and `gone` are called from the maintenance thread and take effect with the next `keep`; all
    other methods belong to the writing thread. The directory is not listed again.
    """

    def __init__(self, most_files: int | None, most_size: int | None) -> None:
        self._most_files = most_files
        self._most_size = most_size
        self._files: dict[str, tuple[Path, int]] = {}  # by their uncompressed names, the oldest first
        self._news: deque[tuple[Path, int | None]] = deque()
        self._to_look_at: deque[str] = deque()
        self._has_failed = False
        self.size = 0
        """Total size in bytes."""

    @property
    def count(self) -> int:
        """Number of complete recordings."""
        return len(self._files)

    def add(self, file: Path, size: int) -> None:
        """Add a recording that was just completed, as the newest."""
        self._files[_key(file)] = file, size
        self.size += size

    def found(self, files: dict[Path, int]) -> None:
        """Register earlier recordings, the oldest first."""
        self._news.extend(reversed(files.items()))

    def compressed(self, file: Path, size: int) -> None:
        """Register the compressed form of a recording, of `size` bytes."""
        self._news.append((file, size))

    def gone(self, file: Path) -> None:
        """Register that a recording was deleted externally."""
        self._news.append((file, None))

    def keep(self, files: int, size: int) -> bool:
        """Delete the oldest recordings that exceed the bounds, counting `files` more of `size` bytes.

        Return whether the bounds are still exceeded.
        """
        self._learn()
        self._look()
        for _ in range(DELETED_AT_ONCE):
            if not (self._files and self._is_too_much(files, size)):
                return False
            file, freed = self._files.pop(next(iter(self._files)))
            self.size -= freed
            try:
                file.unlink(missing_ok=True)
            except OSError as error:
                if not self._has_failed:
                    self._has_failed = True
                    logger().warning("recording not deleted", file=str(file), reason=reason_of(error))
        return True

    def _is_too_much(self, files: int, size: int) -> bool:
        if self._most_files is not None and self.count + files > self._most_files:
            return True
        return self._most_size is not None and self.size + size > self._most_size

    def _look(self) -> None:
        """Detect recordings that were deleted externally."""
        if not self._to_look_at:
            self._to_look_at.extend(self._files)
        for _ in range(min(LOOKED_AT, len(self._to_look_at))):
            key = self._to_look_at.popleft()
            if key in self._files and not os.path.lexists(self._files[key][0]):
                self._news.append((self._files[key][0], None))
        self._learn()

    def _learn(self) -> None:
        """Apply the reports of the maintenance thread; recordings unknown so far are older than all known ones."""
        older: dict[str, tuple[Path, int]] = {}
        while self._news:
            file, size = self._news.popleft()
            key = _key(file)
            known = self._files.get(key)
            if known is None:
                if size is not None:
                    older[key] = file, size
            elif size is not None and known[0] != file:
                self._files[key] = file, size
                self.size += size - known[1]
            elif size is None and known[0] == file:
                del self._files[key]
                self.size -= known[1]
        if older:
            self._files = {**dict(reversed(older.items())), **self._files}
            self.size += sum(size for _, size in older.values())


def _key(file: Path) -> str:
    return file.name.removesuffix(COMPRESSED)
