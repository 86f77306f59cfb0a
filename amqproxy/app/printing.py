"""Records on standard output, in a thread: a pager must not stop the proxy, and its end must not end it.

Frames are kept as their bytes until that thread writes their lines: the event loop makes nothing of them.
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
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.observer import ObserverSettings
from amqproxy.taps.record_queue import PrintedRecord, RecordQueue
from amqproxy.views.decoded_tap import DecodedTap

PATIENCE = 1.0
"""Seconds that the last records may take to be printed."""

BATCH_INTERVAL = 0.02
"""Seconds in which what is to be printed is gathered, once something was: waking a thread costs more than printing."""

WRITE_SIZE = 256 * 1024
"""Bytes of lines of frames that are written at a time, about."""

REPORT_INTERVAL = 10.0
"""Seconds between two lines of the log about records that could not be printed."""


class Lines(Protocol):
    """Gathers lines of frames, each with its line's end, until they are taken: `JSONLines` or `TextLines`."""

    @property
    def size(self) -> int: ...

    def add(self, passed: Decoded) -> int: ...

    def take(self) -> bytes: ...


class PrintSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is printed, and how: each frame, or what is `observed`, as the line that `render` makes of it.

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
    """Carries the records of what its `tap` sees to standard output.

    `is_unheard` once the reader of standard output is gone: after that nothing is printed any more.
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
        self._something = trio.Event()
        self._much = trio.Event()
        self._lock = trio.Lock()
        self._writing = threading.Lock()
        self._unwritten = 0
        self._reason = ""

    def _keep(self, passed: Decoded, cost: int, count: int) -> None:
        """Something has passed, whose lines are to be written."""
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
        """Log now and then how many records were not printed, also while nothing is read at all; until cancelled."""
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
        """Print what waits, unless the reader has stopped reading."""
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
                # A write that blocks cannot be cancelled; its thread is left to the end of the process.
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
        """Write records behind those of a thread that was left: neither their bytes nor their lines may mix."""
        with self._writing:
            return _print(self._render, records) if self._lines is None else _print_lines(self._lines, records)


def _count_of(record: Any) -> int:
    return len(record.frames) if isinstance(record, DecodedFrames) else 1


def _print_lines(lines: Lines, records: Iterable[Decoded]) -> list[Exception]:
    """Write the lines of frames, but for those that cannot be made: what went wrong with each of these."""
    failures = []
    for record in records:
        try:
            lines.add(record)
        except Exception as error:  # noqa: BLE001 - one record's failure is not the others'
            failures.append(error)
        if lines.size >= WRITE_SIZE:
            _write(lines.take())
    _write(lines.take())
    return failures


def _print(render: Callable[[Any], str], records: Iterable[PrintedRecord]) -> list[Exception]:
    """Write the records' lines, but for those that cannot be made: what went wrong with each of these."""
    lines, failures = [], []
    for record in records:
        try:
            lines.append(f"{render(record)}\n")
        except Exception as error:  # noqa: BLE001 - one record's failure is not the others'
            failures.append(error)
    _write("".join(lines).encode(sys.stdout.encoding or "utf-8", sys.stdout.errors or "backslashreplace"))
    return failures


def _write(data: bytes) -> None:
    """Write to the descriptor itself: a thread stuck in `sys.stdout` would hold its lock at our exit."""
    output = sys.stdout.fileno()
    while data:
        try:
            data = data[os.write(output, data) :]
        except BlockingIOError:  # the process that gave us the descriptor made it so
            poll = select.poll()
            poll.register(output, select.POLLOUT)
            poll.poll()
