"""Findings of a running proxy, evaluated once for all subscribers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import trio

from amqproxy.control.request import Subscribe
from amqproxy.control.subscription import Subscription
from amqproxy.control.tap_ring import Entry, TapRing
from amqproxy.control.work_share import WorkShare
from amqproxy.process.supervision import contained
from amqproxy.proxy.record_source import OVERDUE_INTERVAL
from amqproxy.taps.frame_chunk import FrameChunk
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.note import Note
from amqproxy.taps.observer import ObserverSettings
from amqproxy.taps.record_queue import PrintedRecord, RecordQueue
from amqproxy.taps.tap import TappedSession
from amqproxy.taps.trace_tap import TraceTap

READER = "findings"
"""The name under which dropped findings are counted."""

MAX_FINDINGS = 1_000
"""Findings that wait for a subscriber, and that are kept for those that ask for earlier traffic."""

MAX_FINDINGS_BYTES = 4 * 1024 * 1024
"""Bytes of findings that wait to be encoded."""

MAX_TRACE_BYTES = 16 * 1024 * 1024
"""Bytes of the open state of all traces."""

FRAMES_A_LOOK = 64
"""Frames of one chunk that are evaluated before other tasks have their turn."""

REST = 0.02
"""Seconds between two turns once all traffic is evaluated."""


class FindingReader:
    """Findings that wait for one subscriber, as events; the oldest are dropped beyond `MAX_FINDINGS`."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._events: deque[bytes] = deque(maxlen=MAX_FINDINGS)
        self._lost = 0
        self._wake = wake

    def add(self, event: bytes) -> None:
        """Add the event of a finding, and wake the subscriber."""
        self._lost += len(self._events) == MAX_FINDINGS
        self._events.append(event)
        self._wake()

    def take(self) -> Iterator[bytes]:
        """Yield the events added since the last call, and the number of lost ones."""
        lost, self._lost = self._lost, 0
        if lost:
            yield b'{"event":"lost","count":%d}' % lost
        while self._events:
            yield self._events.popleft()


class FindingEvaluation(Subscription):
    """Findings in a ring's entries. A session of which some were missed is unknown until its next snapshot."""

    def __init__(self, request: Subscribe, ring: TapRing, metrics: Metrics, wake: Callable[[], None]) -> None:
        super().__init__(request, ring, metrics, wake, self._miss)
        self._now_ns = time.time_ns()
        self._queue: RecordQueue[PrintedRecord] = RecordQueue(
            MAX_FINDINGS, MAX_FINDINGS_BYTES, metrics, lambda: None, reader=READER, keeps_newest=True
        )
        settings = ObserverSettings(messages=False, findings=True)
        self._tap = TraceTap(self._queue, settings, memory=MAX_TRACE_BYTES, clock=lambda: self._now_ns)
        self._missed: dict[TappedSession, int] = {}
        """Number of missed frames and other events of each open session."""
        self._ends: deque[Entry] = deque()
        self._entry: Entry | None = None
        self._parts: deque[tuple[FrameChunk[Any], Note]] = deque()

    def look(self) -> bool:
        if self._parts:
            self._show_some()
            return True
        self._skip()
        if self._ends:
            self._show(self._ends.popleft())
            return True
        entry = self._next_entry()
        if entry is None:
            self._now_ns = time.time_ns()
            return False
        self._show(entry)
        return True

    def events(self) -> Iterator[bytes]:
        for finding in self._queue.take_records():
            yield b'{"event":"finding","record":%b}' % finding.to_json()
        self._queue.take_dropped()

    async def report_overdue(self) -> None:
        if self._cursor.is_at_end:
            self._now_ns = time.time_ns()
        with contained("overdue findings not reported"):
            for _ in self._tap.report_overdue():
                await trio.lowlevel.checkpoint()

    def close(self) -> None:
        super().close()
        self._queue.close()

    def _show(self, entry: Entry) -> None:
        self._now_ns = entry.ts_ns
        missed = self._missed.pop(entry.session, 0)
        if missed:
            self._tap.saw_gap(entry.session, missed)
        if entry.frames:
            self._entry, self._parts = entry, deque(entry.frames.noted_parts(FRAMES_A_LOOK, entry.note))
            self._show_some()
        else:
            entry.show(self._tap)

    def _show_some(self) -> None:
        """Evaluate the next `FRAMES_A_LOOK` frames of a chunk."""
        assert self._entry is not None
        self._tap.saw_frames(self._entry.session, self._entry.sender, *self._parts.popleft())

    def _miss(self, entry: Entry) -> None:
        """Note a missed entry; this is called while the relay works, so that all else is done later."""
        if isinstance(entry.event, str):
            self._missed.pop(entry.session, None)
            self._ends.append(entry)
        else:
            self._missed[entry.session] = self._missed.get(entry.session, 0) + entry.length


class FindingSubscription(Subscription):
    """Findings for one client that wants nothing else."""

    def __init__(
        self, request: Subscribe, ring: TapRing, metrics: Metrics, wake: Callable[[], None], findings: FindingReader
    ) -> None:
        super().__init__(request, ring, metrics, wake, lambda entry: None)
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
        self._newest: deque[bytes] = deque(maxlen=MAX_FINDINGS)
        self._something = trio.Event()

    def join(self, request: Subscribe, wake: Callable[[], None]) -> FindingReader:
        """Return a reader of the findings from now on; of earlier ones too, if the request is from the start."""
        reader = FindingReader(wake)
        if request.since == "start":
            for event in self._newest:
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
            self._newest.clear()

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
                        is_more = evaluation.look()
                self._pass_on(evaluation)
        return is_more

    def _pass_on(self, evaluation: FindingEvaluation) -> None:
        for event in evaluation.events():
            self._newest.append(event)
            for reader in self._readers:
                reader.add(event)

    async def _report_overdue(self) -> None:
        while True:
            await trio.sleep(OVERDUE_INTERVAL)
            if self._evaluation is not None:
                await self._evaluation.report_overdue()
                if self._evaluation is not None:
                    self._pass_on(self._evaluation)
