"""Prints records to standard output in a thread: a pager must not block the proxy, and its end must not end it.

Frames are kept as bytes until the thread formats them: the event loop does not decode them.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import msgspec
import trio

from amqproxy.capture.decoded import Decoded, DecodedFrames
from amqproxy.configuration.config import Limits
from amqproxy.process.log import logger
from amqproxy.process.supervision import contained, report
from amqproxy.proxy.record_source import OVERDUE_INTERVAL, RecordSource
from amqproxy.rules.matching.filters import Filter
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.observer import ObserverSettings
from amqproxy.taps.record_queue import PrintedRecord, RecordQueue
from amqproxy.views.decoded_tap import DecodedTap

PATIENCE = 1.0
"""Time limit for printing the last records, in seconds."""

BATCH_INTERVAL = 0.02
"""Seconds in which output is collected into a batch, since waking a thread costs more than printing."""

WRITE_SIZE = 256 * 1024
"""Approximate number of bytes of frame lines written at a time."""

REPORT_INTERVAL = 10.0
"""Seconds between two log lines about lost records."""


class Lines(Protocol):
    """Collects lines of frames, each with its line end, until they are taken: `JSONLines` or `TextLines`."""

    @property
    def size(self) -> int: ...

    def add(self, passed: Decoded) -> int: ...

    def take(self) -> bytes: ...


class PrintSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Content and format of the output: each frame, or the `observed` reports, formatted by `render`.

    With `wanted`, only the commands for which it holds. The records of frames contain the first `body` bytes of each
    body frame. With `lines`, these write the lines of frames, and no record is made. With `ends_with_reader`, the proxy
    ends when the reader of standard output goes away.
    """

    render: Callable[[Any], str]
    observed: ObserverSettings | None = None
    wanted: Filter | None = None
    body: int = 0
    lines: Callable[[], Lines] | None = None
    ends_with_reader: bool = False


class Printing:
    """Prints the records of the traffic that its `tap` sees.

    `is_unheard` once the reader of standard output is gone: nothing is printed after that.
    """

    def __init__(self, settings: PrintSettings, limits: Limits, metrics: Metrics) -> None:
        self._queue: RecordQueue[Any] = RecordQueue(limits.print_backlog, limits.print_memory, metrics, self._wake)
        self._lines = settings.lines() if settings.lines is not None and settings.observed is None else None
        self._source = RecordSource(
            self._queue,
            settings.observed,
            settings.wanted,
            memory=limits.print_memory,
            body_limit=limits.rule_body,
            body=settings.body,
            frame_tap=None if self._lines is None else DecodedTap(self._keep, self._queue.drop, self._wake),
        )
        self.tap = self._source.tap
        self.is_unheard = False
        self._render = settings.render
        observed = settings.observed
        self._prints_findings = observed is not None and observed.findings and settings.wanted is None
        self._something = trio.Event()
        self._much = trio.Event()
        self._lock = trio.Lock()
        self._writing = threading.Lock()
        self._unwritten = 0
        self._reason = ""

    def note_findings(self, findings: Iterable[Finding]) -> None:
        """Print findings about the proxy itself, if findings are printed, and not only those of selected commands."""
        if self._prints_findings:
            for each in findings:
                cost = len(each.to_json())
                if self._queue.has_room(cost):
                    self._queue.add(each, cost)
                    self._queue.wake()

    def _keep(self, passed: Decoded, cost: int, count: int) -> None:
        """Queue traffic whose lines will be written."""
        if self._queue.has_room(cost, count):
            self._queue.add(passed, cost, count)

    def _wake(self) -> None:
        self._something.set()
        if self._queue.is_half_full:
            self._much.set()

    async def run(self, ended: Callable[[], None]) -> None:
        """Print until cancelled, or until the reader is gone; then call `ended`."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._report_overdue)
            while not self.is_unheard:
                await self._something.wait()
                self._something = trio.Event()
                self._much = trio.Event()
                with contained("records not printed"):
                    await self._flush()
                with trio.move_on_after(BATCH_INTERVAL):
                    await self._much.wait()
            nursery.cancel_scope.cancel()
        ended()

    async def _report_overdue(self) -> None:
        while True:
            await trio.sleep(OVERDUE_INTERVAL)
            await self._source.report_overdue()

    async def report_losses(self) -> None:
        """Log lost records periodically, even if nothing is read at all, until cancelled."""
        while True:
            await trio.sleep(REPORT_INTERVAL)
            with contained("records not counted"):
                self._report_losses()

    def _report_losses(self) -> None:
        count, reason = self._queue.take_dropped() + self._unwritten, self._reason or "their reader is too slow"
        self._unwritten, self._reason = 0, ""
        if count:
            logger().warning("records not printed", count=count, reason=reason)

    async def finish(self) -> None:
        """Print the queued records, unless the reader has stopped reading."""
        with contained("records not printed"), trio.move_on_after(PATIENCE):
            await self._flush()
        with contained("records not counted"):
            self._report_losses()

    async def _flush(self) -> None:
        async with self._lock:
            records = self._queue.take_records()
            if self.is_unheard:
                return
            try:
                # A blocked write cannot be cancelled; its thread is abandoned to the end of the process.
                failures = await trio.to_thread.run_sync(self._print, records, abandon_on_cancel=True)
            except BrokenPipeError:
                self.is_unheard = True
                self._queue.close()
            except OSError as error:  # such as a full disk: these records are lost, and no client is affected
                self._unwritten += sum(map(_count_of, records))
                self._reason = error.strerror or str(error)
            else:
                if failures:
                    report("records not printed", failures[0], count=len(failures))

    def _print(self, records: Iterable[Any]) -> list[Exception]:
        """Write records after those of an abandoned thread, so that their bytes and lines do not mix."""
        with self._writing:
            return _print(self._render, records) if self._lines is None else _print_lines(self._lines, records)


def _count_of(record: Any) -> int:
    return len(record.frames) if isinstance(record, DecodedFrames) else 1


def _print_lines(lines: Lines, records: Iterable[Decoded]) -> list[Exception]:
    """Write the lines of frames; return the errors of lines that cannot be made."""
    failures = []
    for record in records:
        try:
            lines.add(record)
        except Exception as error:  # noqa: BLE001 - one record's failure does not affect the others
            failures.append(error)
        if lines.size >= WRITE_SIZE:
            _write(lines.take())
    _write(lines.take())
    return failures


def _print(render: Callable[[Any], str], records: Iterable[PrintedRecord]) -> list[Exception]:
    """Write the records' lines; return the errors of lines that cannot be made."""
    lines, failures = [], []
    for record in records:
        try:
            lines.append(f"{render(record)}\n")
        except Exception as error:  # noqa: BLE001 - one record's failure does not affect the others
            failures.append(error)
    _write("".join(lines).encode(sys.stdout.encoding or "utf-8", sys.stdout.errors or "backslashreplace"))
    return failures


def _write(data: bytes) -> None:
    """Write to the descriptor itself: a thread blocked in `sys.stdout` would hold its lock at the program's exit."""
    output = sys.stdout.fileno()
    while data:
        try:
            data = data[os.write(output, data) :]
        except BlockingIOError:  # the process that passed the descriptor made it non-blocking
            poll = select.poll()
            poll.register(output, select.POLLOUT)
            poll.poll()
