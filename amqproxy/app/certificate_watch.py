"""Reloads certificates that were replaced on disk, as by cert-manager and certbot, without a signal; warns of others
that are about to expire.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping

import trio

from amqproxy.process.log import logger
from amqproxy.process.watched_files import WatchedFiles
from amqproxy.sockets.tls import expiry
from amqproxy.taps.findings.state.expiring_certificate import DAY, NOTICE, REMINDER

INTERVAL = 60.0
"""Seconds between two checks of the files."""


async def watch_certificates(
    files: Callable[[], Iterable[str]],
    renew: Callable[[], None],
    note: Callable[[Mapping[str, float]], None] = lambda expiries: None,
) -> None:
    """Call `renew` whenever one of the `files` was replaced or modified, forever; warn if a certificate expires soon.

    `note` is called with the time at which each certificate expires, in seconds since 1970, at least once a day.

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
            expiries = await trio.to_thread.run_sync(_expiries, list(files()), limiter=threads, abandon_on_cancel=True)
            note(expiries)
            _warn_of_expiry(expiries, time.time())
        await trio.sleep(INTERVAL)


def _expiries(files: Iterable[str]) -> dict[str, float]:
    """Return when the certificates in files expire; authorities are certificates, too."""
    found = {file: expiry(file) for file in files}
    return {file: end for file, end in found.items() if end is not None}


def _warn_of_expiry(expiries: Mapping[str, float], now: float) -> None:
    """Log each certificate that has expired, or will within `NOTICE`."""
    for file, end in expiries.items():
        if end - now > NOTICE:
            continue
        days = round((end - now) / DAY, 1)
        if days > 0:
            logger().warning("certificate expires", file=file, days=days)
        else:
            logger().error("certificate has expired", file=file, days=-days)
