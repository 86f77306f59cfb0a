"""Certificates that are replaced on disk, as cert-manager and certbot do, are read again without a signal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import trio

INTERVAL = 60.0
"""Seconds between two looks at the files."""

Fingerprint = tuple[int, int, int] | None
"""By which a file is known to be the same: its inode, size and time of change; None where there is none."""


class WatchedFiles:
    """What files were when they were looked at last."""

    def __init__(self, files: Callable[[], Iterable[str]]) -> None:
        """`files` is asked each time: they may become others."""
        self._files = files
        self._known: dict[str, Fingerprint] = {}

    def have_changed(self) -> bool:
        """Whether one has been replaced, or changed, since the last look, and is there; a new one has not."""
        before, self._known = self._known, {file: _fingerprint(Path(file)) for file in self._files()}
        return any(now not in (None, before.get(file, now)) for file, now in self._known.items())


async def watch_certificates(files: Callable[[], Iterable[str]], renew: Callable[[], None]) -> None:
    """Call `renew` whenever one of the `files` has been replaced or changed, forever.

    Certificate and key may be written one after the other: while they do not fit, `renew` changes nothing, and the one
    that comes later calls it again. The disk, which may hang, is asked in a thread.
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
