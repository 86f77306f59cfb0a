"""Reloads certificates that were replaced on disk, as by cert-manager and certbot, without a signal; warns of others
that are about to expire.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

import trio

from amqproxy.process.log import logger
from amqproxy.process.watched_files import WatchedFiles
from amqproxy.sockets.tls import expiry

INTERVAL = 60.0
"""Seconds between two checks of the files."""

DAY = 86_400.0

NOTICE = 14 * DAY
"""Remaining seconds of a certificate at which warnings begin; renewal by ACME begins a month before the end."""

REMINDER = DAY
"""Seconds between two warnings of the same certificate."""


async def watch_certificates(files: Callable[[], Iterable[str]], renew: Callable[[], None]) -> None:
    """Call `renew` whenever one of the `files` was replaced or modified, forever; warn if a certificate expires soon.

    Certificate and key may be written one after the other: while they do not match, `renew` changes nothing, and the
    later write calls it again. A thread reads the disk, which may hang.
    """
    watched = WatchedFiles(files)
    threads = trio.CapacityLimiter(1)
    warned_at = -math.inf
    while True:
        has_changed = await trio.to_thread.run_sync(watched.have_changed, limiter=threads, abandon_on_cancel=True)
        if has_changed:
            renew()
        if has_changed or trio.current_time() - warned_at >= REMINDER:
            warned_at = trio.current_time()
            await trio.to_thread.run_sync(
                _warn_of_expiry, list(files()), time.time(), limiter=threads, abandon_on_cancel=True
            )
        await trio.sleep(INTERVAL)


def _warn_of_expiry(files: Iterable[str], now: float) -> None:
    """Log each certificate that has expired, or will within `NOTICE`; authorities are certificates, too."""
    for file in dict.fromkeys(files):
        end = expiry(file)
        if end is None or end - now > NOTICE:
            continue
        days = round((end - now) / DAY, 1)
        if days > 0:
            logger().warning("certificate expires", file=file, days=days)
        else:
            logger().error("certificate has expired", file=file, days=-days)
