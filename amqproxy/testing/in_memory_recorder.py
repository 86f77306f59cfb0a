"""Recorder of a proxy's traffic: messages with their outcomes, findings, and the latest frames."""

from __future__ import annotations

import msgspec

from amqproxy.rules.context import Client
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.frame_tap import FrameTap
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.observer import ObserverSettings
from amqproxy.taps.record import Record
from amqproxy.taps.record_queue import PrintedRecord, RecordQueue
from amqproxy.taps.tap import Tap
from amqproxy.taps.trace_tap import TraceTap
from amqproxy.testing.messages import Messages

MOST_RECORDS = 100_000
"""Maximum number of messages and findings; the oldest are dropped and counted."""

MOST_MEMORY = 256 * 1024 * 1024
"""Maximum size of these, in bytes."""

MOST_BODY = 64 * 1024
"""Recorded bytes of a message body."""

MOST_PENDING_MEMORY = 64 * 1024 * 1024
"""Memory limit of messages without an outcome yet, in bytes."""

MOST_CLIENTS = 10_000
"""Maximum number of connections whose client is known, the newest."""

MOST_FRAMES = 1000
"""Maximum number of frames, the newest."""

MOST_FRAME_MEMORY = 16 * 1024 * 1024
"""Maximum size of these, in bytes."""

READER = "testing"
"""Name under which dropped records are counted."""


class Recording(msgspec.Struct, frozen=True):
    """The records up to a moment; `dropped` is the number of older messages and findings that were dropped."""

    messages: Messages
    findings: list[Finding]
    frames: list[Record]
    dropped: int


class InMemoryRecorder:
    """Records the traffic that its `taps` see. It belongs to the proxy's thread."""

    def __init__(self, metrics: Metrics) -> None:
        self._reports = self._queue(metrics, MOST_RECORDS, MOST_MEMORY)
        self._frames = self._queue(metrics, MOST_FRAMES, MOST_FRAME_MEMORY)
        settings = ObserverSettings(messages=True, findings=True, body=MOST_BODY)
        self._trace_tap = TraceTap(self._reports, settings, memory=MOST_PENDING_MEMORY)
        self.taps: tuple[Tap, ...] = (self._trace_tap, FrameTap(self._frames))
        self._clients: dict[int, Client] = {}
        self._dropped = 0

    def recording(self) -> Recording:
        """Return the records, with open messages as pending."""
        reports = self._reports.waiting_records()
        messages = [each for each in reports if isinstance(each, MessageRecord)]
        self._learn(messages)
        self._dropped += self._reports.take_dropped()
        messages += self._trace_tap.pending()
        messages.sort(key=lambda record: record.ts_ns)
        return Recording(
            Messages(messages, dict(self._clients)),
            [each for each in reports if isinstance(each, Finding)],
            [each for each in self._frames.waiting_records() if isinstance(each, Record)],
            self._dropped,
        )

    def clear(self) -> None:
        """Drop the records. Open messages stay."""
        self.recording()  # the clients must be remembered
        self._reports.take_records()
        self._reports.take_records()  # else those of the first call would count as not printed yet
        self._frames.take_records()
        self._frames.take_records()
        self._dropped = 0

    def _learn(self, messages: list[MessageRecord]) -> None:
        """Learn the clients from the records of their connections' opening."""
        for record in messages:
            if record.type == "connection" and record.outcome == "opened" and record.stream not in self._clients:
                given = record.arguments or {}
                self._clients[record.stream] = msgspec.structs.replace(
                    Client.named(record.stream, record.connection),
                    user=str(given.get("user") or ""),
                    vhost=str(given.get("virtual_host") or ""),
                    properties=given.get("client_properties") or {},
                )
        while len(self._clients) > MOST_CLIENTS:
            del self._clients[next(iter(self._clients))]

    @staticmethod
    def _queue(metrics: Metrics, backlog: int, memory: int) -> RecordQueue[PrintedRecord]:
        return RecordQueue(backlog, memory, metrics, lambda: None, reader=READER, keeps_newest=True)
