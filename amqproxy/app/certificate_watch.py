"""Reloads certificates that were replaced on disk, as by cert-manager and certbot, without a signal."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import trio

from amqproxy.process.watched_files import WatchedFiles

INTERVAL = 60.0
"""Seconds between two checks of the files."""


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
