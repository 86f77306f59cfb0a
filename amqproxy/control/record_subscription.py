"""A subscription to records: of frames, or of messages, as they happen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from amqproxy.capture.json_lines import JSONLines
from amqproxy.control.entry_parts import EntryClock, EntryParts
from amqproxy.control.finding_watch import FindingReader
from amqproxy.control.request import Subscribe
from amqproxy.control.request_error import RequestError
from amqproxy.control.subscription import READER, RingSubscription
from amqproxy.control.tap_ring import TapRing
from amqproxy.proxy.record_source import RecordSource
from amqproxy.rules.matching.filters import Filter
from amqproxy.rules.matching.watched_filter import WatchedFilter
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.observer import ObserverSettings
from amqproxy.taps.record import encoded
from amqproxy.taps.record_queue import PrintedRecord, RecordQueue
from amqproxy.views.decoded_tap import DecodedTap

MAX_FOLLOWED = 10_000
"""Records that wait for a client; the oldest are dropped, and their number is sent."""

MAX_FOLLOWED_BYTES = 16 * 1024 * 1024
"""Bytes of records that wait for a client."""

MAX_PENDING_BYTES = 16 * 1024 * 1024
"""Bytes of messages whose outcome is open."""

MAX_FILTERED_BODY = 1024 * 1024
"""Bytes of a body that a filter evaluates; a message with a larger one is shown."""

_SKIPPED = "too slow: not all that passed was looked at"


class RecordSubscription(RingSubscription):
    """Records for one client, selected by its own filter. `RequestError` if the filter is invalid.

    Records of frames are written from the frames' bytes, without waiting for outcomes.
    """

    def __init__(
        self,
        request: Subscribe,
        ring: TapRing,
        metrics: Metrics,
        wake: Callable[[], None],
        findings: FindingReader | None = None,
    ) -> None:
        """Send also the events of `findings`."""
        self._warnings: list[str] = []
        wanted = None if request.filter is None else _filter(request.filter, self._warnings.append)
        super().__init__(request, ring, metrics, wake)
        self._findings = findings
        self._queue: RecordQueue[PrintedRecord] = RecordQueue(
            MAX_FOLLOWED, MAX_FOLLOWED_BYTES, metrics, lambda: None, reader=READER, keeps_newest=True
        )
        self._clock = EntryClock()
        lines = self._lines = JSONLines(request.body)
        observed = ObserverSettings(body=request.body)
        self._source = RecordSource(
            self._queue,
            None if request.frames else observed,
            wanted,
            memory=MAX_PENDING_BYTES,
            body_limit=MAX_FILTERED_BODY,
            body=request.body,
            clock=self._clock,
            frame_tap=DecodedTap(
                lambda passed, cost, count: lines.add(passed), self._queue.drop, lambda: None, self._clock
            ),
        )
        self._is_closed = False
        self._skipped = 0
        self._parts = EntryParts(self._source.tap, self._clock)

    def look(self) -> bool:
        """Make records of some of the ring's entries; False when there is nothing more."""
        if self._is_closed:
            return False
        if self._parts.show_some():
            return True
        skipped = self._skip()
        if skipped:
            self._skipped += skipped
            self._dropped.inc(skipped)
            self._source.note_gap(_SKIPPED)
        if self._cursor.is_skipping:
            return True
        entry = self._next_entry()
        if entry is None:
            self._clock.now_ns = time.time_ns()
            return False
        self._parts.show(entry)
        return True

    def events(self) -> Iterator[bytes]:
        """Yield the records made since the last call, warnings, and the number of lost records."""
        while self._warnings:
            yield b'{"event":"warning","text":%b}' % encoded(self._warnings.pop())
        skipped, self._skipped = self._skipped, 0
        if skipped:
            yield b'{"event":"lost","count":%d}' % skipped
        for line in self._lines.take().splitlines():
            yield b'{"event":"frame","record":%b}' % line
        for record in self._queue.take_records():
            yield b'{"event":"message","record":%b}' % record.to_json()
        if self._findings is not None:
            yield from self._findings.take()
        lost = self._queue.take_dropped()
        if lost:
            yield b'{"event":"lost","count":%d}' % lost

    async def report_overdue(self) -> None:
        """Report messages that have been open for long."""
        if self._cursor.is_at_end:
            self._clock.now_ns = time.time_ns()
        await self._source.report_overdue()
        self._wake()

    def close(self) -> None:
        super().close()
        self._is_closed = True
        self._queue.close()
        self._parts.clear()


def _filter(expression: str, warn: Callable[[str], object]) -> Filter:
    try:
        return WatchedFilter(expression, warn)
    except ValueError as error:
        raise RequestError("wrong-filter", str(error)) from None
