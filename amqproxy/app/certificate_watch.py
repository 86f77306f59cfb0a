"""Reloads certificates that were replaced on disk, as by cert-manager and certbot, without a signal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import trio

INTERVAL = 60.0
"""Seconds between two checks of the files."""

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


async def watch_certificates(files: Callable[[], Iterable[str]], renew: Callable[[], None]) -> None:
    """Call `renew` whenever one of the `files` was replaced or modified, forever.

    Certificate and key may be written one after the other: while they do not match, `renew` changes nothing, and the
    later write calls it again. A thread reads the disk, which may hang.
    """
    watched = WatchedFiles(files)
    threads = trio.CapacityLimiter(1)
    while True:
        if await trio.to_thread.run_sync(watched.have_changed, limiter=threads, abandon_on_cancel=True):
            renew()
        await trio.sleep(INTERVAL)


def _fingerprint(file: Path) -> Fingerprint:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
