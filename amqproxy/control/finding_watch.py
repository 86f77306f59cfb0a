"""Findings of a running proxy, evaluated once for all subscribers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator

import trio

from amqproxy.control.entry_parts import EntryClock, EntryParts
from amqproxy.control.request import Subscribe
from amqproxy.control.subscription import RingSubscription, Subscription
from amqproxy.control.tap_ring import Entry, TapRing
from amqproxy.control.work_share import WorkShare
from amqproxy.process.supervision import contained
from amqproxy.proxy.record_source import OVERDUE_INTERVAL, RecordSource
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.observer import ObserverSettings
from amqproxy.taps.record_queue import PrintedRecord, RecordQueue
from amqproxy.taps.tap import TappedSession

READER = "findings"
"""The name under which dropped findings are counted."""

MAX_FINDINGS = 1_000
"""Findings that wait for a subscriber, and that are kept for those that ask for earlier traffic."""

MAX_FINDINGS_BYTES = 4 * 1024 * 1024
"""Bytes of findings that wait to be encoded, of those that wait for a subscriber, and of those that are kept, each."""

FINDINGS_A_LOOK = 64
"""Findings that are encoded, or sent to a subscriber, before other tasks have their turn."""

MAX_TRACE_BYTES = 16 * 1024 * 1024
"""Bytes of the open state of all traces."""

REST = 0.02
"""Seconds between two turns once all traffic is evaluated."""


class FindingReader:
    """Findings that wait for one subscriber, as events; the oldest are dropped if they are too many or too large."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.waiting: deque[bytes] = deque()
        self._size = 0
        self._lost = 0
        self._wake = wake

    def add(self, event: bytes) -> None:
        """Add the event of a finding, and wake the subscriber."""
        self.waiting.append(event)
        self._size += len(event)
        while len(self.waiting) > MAX_FINDINGS or self._size > MAX_FINDINGS_BYTES:
            self._size -= len(self.waiting.popleft())
            self._lost += 1
        self._wake()

    def lose(self, count: int) -> None:
        """Note findings that were dropped before they came here, and wake the subscriber."""
        self._lost += count
        self._wake()

    def take(self) -> Iterator[bytes]:
        """Yield `FINDINGS_A_LOOK` events, and the number of lost ones; wake the subscriber if more are waiting."""
        lost, self._lost = self._lost, 0
        if lost:
            yield b'{"event":"findings-lost","count":%d}' % lost
        for _ in range(min(FINDINGS_A_LOOK, len(self.waiting))):
            event = self.waiting.popleft()
            self._size -= len(event)
            yield event
        if self.waiting:
            self._wake()


class FindingEvaluation(RingSubscription):
    """Findings in a ring's entries. A session of which some were missed is unknown until its next snapshot."""

    def __init__(self, request: Subscribe, ring: TapRing, metrics: Metrics, wake: Callable[[], None]) -> None:
        super().__init__(request, ring, metrics, wake, self._miss)
        self._clock = EntryClock()
        self._queue: RecordQueue[PrintedRecord] = RecordQueue(
            MAX_FINDINGS, MAX_FINDINGS_BYTES, metrics, lambda: None, reader=READER, keeps_newest=True
        )
        settings = ObserverSettings(messages=False, findings=True)
        self._source = RecordSource(
            self._queue, settings, None, memory=MAX_TRACE_BYTES, body_limit=0, clock=self._clock
        )
        self._found: deque[PrintedRecord] = deque()
        self._missed: dict[TappedSession, int] = {}
        """Number of missed frames and other events of each open session."""
        self._ends: deque[Entry] = deque()
        """Missed ends of traced sessions."""
        self._parts = EntryParts(self._source.tap, self._clock)

    def look(self) -> bool:
        if self._parts.show_some():
            return True
        self._skip()
        entry = self._ends.popleft() if self._ends else self._next_entry()
        if entry is None:
            self._clock.now_ns = time.time_ns()
            return False
        missed = self._missed.pop(entry.session, 0)
        if missed:
            self._source.tap.saw_gap(entry.session, missed)
        self._parts.show(entry)
        return True

    def events(self) -> Iterator[bytes]:
        """Yield the next `FINDINGS_A_LOOK` findings."""
        if not self._found:
            self._found = self._queue.take_records()
        for _ in range(min(FINDINGS_A_LOOK, len(self._found))):
            yield _event(self._found.popleft())

    def take_lost(self) -> int:
        """Return how many findings were dropped since the last call; missed traffic counts as one."""
        return self._queue.take_dropped()

    async def report_overdue(self) -> None:
        if self._cursor.is_at_end:
            self._clock.now_ns = time.time_ns()
        await self._source.report_overdue()
        self._wake()

    def close(self) -> None:
        super().close()
        self._queue.close()

    def _miss(self, entry: Entry) -> None:
        """Note a missed entry; this is called while the relay works, so that all else is done later."""
        if not isinstance(entry.event, str):
            self._missed[entry.session] = self._missed.get(entry.session, 0) + entry.length
            return
        self._missed.pop(entry.session, None)
        if self._source.traces(entry.session):
            self._ends.append(entry)


class FindingSubscription(Subscription):
    """Findings for one client that wants nothing else."""

    def __init__(self, request: Subscribe, wake: Callable[[], None], findings: FindingReader) -> None:
        super().__init__(request, wake)
        self._findings = findings

    def look(self) -> bool:
        return False

    def events(self) -> Iterator[bytes]:
        return self._findings.take()


class FindingWatch:
    """The evaluation of a ring's traffic, while it has readers; `share` limits its time in a busy loop.

    Findings are the same for all readers, however slow one of them is: none concludes anything from what it missed.
    """

    def __init__(self, ring: TapRing, metrics: Metrics, share: WorkShare) -> None:
        self._ring = ring
        self._metrics = metrics
        self._share = share
        self._readers: list[FindingReader] = []
        self._evaluation: FindingEvaluation | None = None
        self._newest = FindingReader(_ignore)
        self._of_proxy = FindingReader(_ignore)
        """The newest findings about the proxy itself, which are kept also while nobody reads."""
        self._something = trio.Event()

    def add(self, findings: Iterable[Finding]) -> None:
        """Pass on findings about the proxy itself."""
        for finding in findings:
            event = _event(finding)
            for reader in (self._of_proxy, *self._readers):
                reader.add(event)

    def join(self, request: Subscribe, wake: Callable[[], None]) -> FindingReader:
        """Return a reader of the findings from now on; of earlier ones too, if the request is from the start."""
        reader = FindingReader(wake)
        if request.since == "start":
            for event in (*self._of_proxy.waiting, *self._newest.waiting):
                reader.add(event)
        self._readers.append(reader)
        if self._evaluation is None:
            asked = Subscribe(findings=True, since=request.since)
            self._evaluation = FindingEvaluation(asked, self._ring, self._metrics, self._wake)
            self._wake()
        return reader

    def leave(self, reader: FindingReader) -> None:
        """End a reader; without any, nothing is evaluated."""
        self._readers.remove(reader)
        if not self._readers and self._evaluation is not None:
            self._evaluation.close()
            self._evaluation = None
            self._newest = FindingReader(_ignore)

    async def run(self) -> None:
        """Evaluate until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._report_overdue)
            while True:
                await self._something.wait()
                self._something = trio.Event()
                while await self._take_turn():
                    pass
                await trio.sleep(REST)

    def _wake(self) -> None:
        self._something.set()

    async def _take_turn(self) -> bool:
        """Evaluate some entries; return whether there are more."""
        is_more = False
        async with self._share.turn() as is_over:
            evaluation = self._evaluation
            if evaluation is not None:
                with contained("findings not evaluated"):
                    is_more = True
                    while is_more and not is_over():
                        is_more = self._pass_on(evaluation) or evaluation.look()
        return is_more

    def _pass_on(self, evaluation: FindingEvaluation) -> bool:
        """Give some of the findings to all readers; return whether there were any."""
        has_found = False
        lost = evaluation.take_lost()
        for reader in self._readers if lost else ():
            reader.lose(lost)
        for event in evaluation.events():
            has_found = True
            self._newest.add(event)
            for reader in self._readers:
                reader.add(event)
        return has_found

    async def _report_overdue(self) -> None:
        while True:
            await trio.sleep(OVERDUE_INTERVAL)
            if self._evaluation is not None:
                await self._evaluation.report_overdue()


def _event(finding: PrintedRecord) -> bytes:
    return b'{"event":"finding","record":%b}' % finding.to_json()


def _ignore() -> None:
    """Wake nobody."""
