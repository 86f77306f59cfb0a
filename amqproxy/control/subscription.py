"""One client's subscription to the relayed traffic, on the control socket."""

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
    """Events for one client.

    `wake` is called when there is more. With a `credit`, that many batches may be sent before `grant` adds more.
    """

    def __init__(self, request: Subscribe, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.credit = request.credit

    @property
    def may_send(self) -> bool:
        """Whether there is credit for another batch."""
        return self.credit is None or self.credit > 0

    @property
    def behind(self) -> float:
        """Seconds by which this client is late."""
        return 0.0

    def grant(self, batches: int, max_age: float | None = None) -> None:
        """Add credit for batches; with a `max_age` in seconds, traffic that is older by now is skipped.

        `RequestError` if the subscription has no credit limit.
        """
        if self.credit is None:
            raise RequestError("no-credit", "the subscription has no `credit`: everything is sent")
        self.credit = min(self.credit + batches, MAX_CREDIT)
        self._wake()

    @abstractmethod
    def look(self) -> bool:
        """Process some of the traffic; False at its end, after which `wake` is called when more comes."""

    @abstractmethod
    def events(self) -> Iterator[bytes]:
        """Yield the events made since the last call, each as a line of JSON without its end."""

    async def report_overdue(self) -> None:  # noqa: B027 - only some subscriptions can be overdue
        """Report messages that have been open for long; called every OVERDUE_INTERVAL."""

    def close(self) -> None:  # noqa: B027 - only some subscriptions have something to close
        """End the subscription."""


class RingSubscription(Subscription):
    """Events made from a ring's entries at the client's own pace.

    Entries that this client was too slow for, or that are older than it wants, are skipped.
    """

    def __init__(
        self,
        request: Subscribe,
        ring: TapRing,
        metrics: Metrics,
        wake: Callable[[], None],
        on_missed: Callable[[Entry], None] | None = None,
    ) -> None:
        """Call `on_missed` with each entry that is overwritten or too old before it was read."""
        super().__init__(request, wake)
        self._ring = ring
        self._dropped = metrics.records_dropped.labels(READER)
        self._cursor = Cursor(ring, from_start=request.since == "start", on_missed=on_missed)
        self._max_age_ns = None if request.max_age is None else round(request.max_age * 1e9)
        self._oldest_ns: int | None = None
        """Time before which entries are skipped."""
        self._began = ring.end
        self._awaits_rejoin = False
        """Whether entries were missed since sessions were last asked for their states."""

    @property
    def behind(self) -> float:
        """Age of the next entry in seconds; 0 before the subscription's beginning."""
        return self._cursor.behind(time.time_ns()) if self._cursor.next >= self._began else 0.0

    def grant(self, batches: int, max_age: float | None = None) -> None:
        super().grant(batches)
        if max_age is not None:
            self._oldest_ns = time.time_ns() - round(max_age * 1e9)

    def close(self) -> None:
        """Stop reading the ring."""
        self._cursor.close()
        self._ring.forget(self._wake)

    def _skip(self) -> int:
        """Skip overwritten and too old entries; return the number of their frames and other events.

        While the cursor `is_skipping`, call this again before taking an entry.
        """
        oldest = None
        if self._cursor.next >= self._began:  # entries from before the subscription are wanted, however old
            oldest = self._oldest_ns
            if self._max_age_ns is not None:
                oldest = max(oldest or 0, time.time_ns() - self._max_age_ns)
        skipped = self._cursor.skipped(oldest)
        if skipped:
            self._awaits_rejoin = True
        if self._awaits_rejoin and self._ring.rejoin():
            self._awaits_rejoin = False
        return skipped

    def _next_entry(self) -> Entry | None:
        """Return the next entry; None at the ring's end, after which `wake` is called when more come."""
        entry = self._cursor.take()
        if entry is None:
            self._ring.call_once(self._wake)
        return entry
