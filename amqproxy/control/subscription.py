"""What one client of the control socket follows: frames, messages or findings, as they happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from amqproxy.control.request import Subscribe
from amqproxy.control.request_error import RequestError
from amqproxy.proxy.record_source import RecordSource
from amqproxy.rules.matching.filters import Filter, compiled
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.observer import ObserverSettings
from amqproxy.taps.record_queue import PrintedRecord, RecordQueue

MAX_FOLLOWED = 10_000
"""Records that wait for a client; the oldest are dropped, and their number is sent."""

MAX_FOLLOWED_BYTES = 16 * 1024 * 1024
"""The same in bytes."""

MAX_PENDING_BYTES = 16 * 1024 * 1024
"""Bytes of messages whose outcome a client waits for."""

MAX_FILTERED_BODY = 1024 * 1024
"""Bytes of a body that a filter looks at; a message with a larger one is shown."""

READER = "tail"
"""The name under which dropped records are counted."""


class Subscription:
    """Records for one client, made by `tap` from what sessions relay. `wake` is called when there are some.

    `RequestError` when the filter is wrong.
    """

    def __init__(self, request: Subscribe, metrics: Metrics, wake: Callable[[], None]) -> None:
        self._queue = RecordQueue(MAX_FOLLOWED, MAX_FOLLOWED_BYTES, metrics, wake, reader=READER, keeps_newest=True)
        observed = ObserverSettings(messages=request.messages, findings=request.findings, body=request.body)
        self._source = RecordSource(
            self._queue,
            None if request.frames else observed,
            None if request.filter is None else _filter(request.filter),
            memory=MAX_PENDING_BYTES,
            body_limit=MAX_FILTERED_BODY,
            body=request.body,
        )
        self.tap = self._source.tap

    def events(self) -> Iterator[bytes]:
        """What has happened since the last call, each as a line of JSON without its end; last, how much was lost."""
        for record in self._queue.take_records():
            yield b'{"event":"%b","record":%b}' % (_kind(record), record.to_json())
        lost = self._queue.take_dropped()
        if lost:
            yield b'{"event":"lost","count":%d}' % lost

    async def report_overdue(self) -> None:
        """Make records of messages that have been open for long. To be called once in each OVERDUE_INTERVAL."""
        await self._source.report_overdue()

    def close(self) -> None:
        """Make no more records."""
        self._queue.close()


def _filter(expression: str) -> Filter:
    try:
        return compiled(expression)
    except ValueError as error:
        raise RequestError("wrong-filter", str(error)) from None


def _kind(record: PrintedRecord) -> bytes:
    if isinstance(record, Finding):
        return b"finding"
    return b"message" if isinstance(record, MessageRecord) else b"frame"
