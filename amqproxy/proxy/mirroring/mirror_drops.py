"""Dropped copies of publishes, counted by reason and logged in groups."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import trio

from amqproxy.process.log import logger

LOG_INTERVAL = 10.0
"""Minimum seconds between two log lines with the same reason about the same upstream."""


class DropReason(StrEnum):
    """Reasons for dropping a copy: the label of `amqproxy_copies_dropped_total`."""

    BACKLOG = "backlog"
    """`limits.mirror_backlog` copies are queued for this login already."""
    MEMORY = "memory"
    """`limits.mirror_memory` leaves no room for it."""
    LOGINS = "logins"
    """Copies are queued for as many logins as are possible at a time."""
    CONNECTION = "connection"
    """The mirror's broker could not be reached, or was lost."""
    REJECTED = "rejected"
    """The mirror's broker closed the channel because of it."""
    INVALID = "invalid"
    """It cannot be encoded, or has a header that does not fit a frame."""
    UPSTREAM = "upstream"
    """The upstream is unknown, or has no login for mirrors."""


class MirrorDrops:
    """Counter of dropped copies: `count` is called with the reason and the number of copies."""

    def __init__(self, count: Callable[[DropReason, int], None]) -> None:
        self._count = count
        self._unlogged: dict[tuple[str, DropReason], tuple[int, str]] = {}
        self._logged_at: dict[tuple[str, DropReason], float] = {}

    def add(self, upstream: str | None, reason: DropReason, detail: str, copies: int = 1) -> None:
        """Count dropped copies; log them at once, or together with those of the next seconds."""
        if not copies:
            return
        self.count(reason, copies)
        key = (upstream or "", reason)
        before, _ = self._unlogged.get(key, (0, ""))
        self._unlogged[key] = (before + copies, detail)
        if trio.current_time() >= self._logged_at.get(key, -LOG_INTERVAL) + LOG_INTERVAL:
            self._flush(key)

    def count(self, reason: DropReason, copies: int) -> None:
        """Count dropped copies that were logged already."""
        if copies:
            self._count(reason, copies)

    async def run(self) -> None:
        """Log the counts that `add` has put off, until cancelled."""
        while True:
            await trio.sleep(LOG_INTERVAL)
            for key in list(self._unlogged):
                self._flush(key)

    def _flush(self, key: tuple[str, DropReason]) -> None:
        upstream, reason = key
        copies, detail = self._unlogged.pop(key)
        self._logged_at[key] = trio.current_time()
        logger().warning("copies dropped", copies=copies, upstream=upstream or None, reason=str(reason), detail=detail)
