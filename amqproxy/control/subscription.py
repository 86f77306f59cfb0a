"""What one client of the control socket follows of what sessions relay."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from amqproxy.control.request import MAX_CREDIT, Subscribe
from amqproxy.control.request_error import RequestError
from amqproxy.control.tap_ring import Cursor, Entry, TapRing
from amqproxy.taps.metrics import Metrics

READER = "tail"
"""The name under which dropped records are counted."""


class Subscription(ABC):
    """Events for one client, made from what a ring has, at its own pace.

    `wake` is called when there is more. With a `credit`, so many batches may be sent before `grant` gives more.
    """

    def __init__(
        self,
        request: Subscribe,
        ring: TapRing,
        metrics: Metrics,
        wake: Callable[[], None],
        on_missed: Callable[[Entry], None] | None = None,
    ) -> None:
        """`on_missed` is called with each entry that is overwritten or too old before it was looked at."""
        self._ring = ring
        self._wake = wake
        self._dropped = metrics.records_dropped.labels(READER)
        self._cursor = Cursor(ring, from_start=request.since == "start", on_missed=on_missed)
        self._max_age_ns = None if request.max_age is None else round(request.max_age * 1e9)
        self._oldest_ns: int | None = None
        """What is from before is not wanted any more."""
        self._began = ring.end
        self.credit = request.credit

    @property
    def may_send(self) -> bool:
        """Is there credit for another batch?"""
        return self.credit is None or self.credit > 0

    def grant(self, batches: int, max_age: float | None = None) -> None:
        """So many batches more may be sent; with a `max_age`, of what is no older than that by now.

        `RequestError` where they are not counted.
        """
        if self.credit is None:
            raise RequestError("no-credit", "the subscription has no `credit`: everything is sent")
        self.credit = min(self.credit + batches, MAX_CREDIT)
        if max_age is not None:
            self._oldest_ns = time.time_ns() - round(max_age * 1e9)
        self._wake()

    @abstractmethod
    def look(self) -> bool:
        """Look at some of what the ring has; False when there is nothing more: `wake` is called then.

        What this client was too slow for is skipped, and what is older than it wants.
        """

    @abstractmethod
    def events(self) -> Iterator[bytes]:
        """What has become ready since the last call, each as a line of JSON without its end."""

    async def report_overdue(self) -> None:  # noqa: B027 - only some know what is overdue
        """Show what has been open for long. To be called once in each OVERDUE_INTERVAL."""

    def close(self) -> None:
        """Look at no more."""
        self._cursor.close()
        self._ring.forget(self._wake)

    def _skip(self) -> int:
        """Skip what was overwritten, and what is too old: how many frames and others that were.

        It is to be called again first where the cursor `is_skipping`.
        """
        oldest = None
        if self._cursor.next >= self._began:  # what was there before is wanted
            oldest = self._oldest_ns
            if self._max_age_ns is not None:
                oldest = max(oldest or 0, time.time_ns() - self._max_age_ns)
        return self._cursor.skipped(oldest)

    def _next_entry(self) -> Entry | None:
        """The next entry, which is not skipped; None when there is nothing more: `wake` is called then."""
        entry = self._cursor.take()
        if entry is None:
            self._ring.call_once(self._wake)
        return entry
