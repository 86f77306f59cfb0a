"""Prints what passes, without ever holding it up: records wait in a bounded line, or are dropped."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frames import Frame
from amqproxy.amqp091.grammar import CLIENT, Peer
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.record import Record, record_error, record_frame, record_protocol_header


class Watched(Protocol):
    """What is told of a session: its number, and both ends' addresses."""

    number: int
    name: str


class Printer:
    """Makes records of what sessions relay, and hands them out in batches.

    `render` turns a record into a line; `backlog` bounds the records that wait. `wake` is called
    when there is something to take.
    """

    def __init__(
        self, render: Callable[[Record], str], backlog: int, metrics: Metrics, wake: Callable[[], None]
    ) -> None:
        self._dropped = 0
        self._render = render
        self._waiting: deque[Record] = deque()
        self._backlog = backlog
        self._metrics = metrics
        self._wake = wake

    def take(self) -> tuple[str, int]:
        """The lines that wait, and how many records there was no room for since they were last taken."""
        records, self._waiting = self._waiting, deque()
        dropped, self._dropped = self._dropped, 0
        return "".join([f"{self._render(record)}\n" for record in records]), dropped

    def saw_protocol_header(self, session: Watched, octets: bytes) -> None:
        record = record_protocol_header(
            octets, ts_ns=time.time_ns(), stream=session.number, connection=session.name, sender=CLIENT
        )
        self._add([record])

    def saw_frames(self, session: Watched, sender: Peer, frames: Sequence[Frame]) -> None:
        now = time.time_ns()
        room = self._backlog - len(self._waiting)
        self._drop(len(frames) - room)
        self._add(
            record_frame(frame, ts_ns=now, stream=session.number, connection=session.name, sender=sender)
            for frame in frames[: max(room, 0)]
        )

    def saw_violation(self, session: Watched, sender: Peer, error: ProtocolError) -> None:
        record = record_error(
            error, ts_ns=time.time_ns(), stream=session.number, connection=session.name, sender=sender
        )
        self._add([record])

    def _add(self, records: Iterable[Record]) -> None:
        self._waiting.extend(records)
        self._wake()

    def _drop(self, count: int) -> None:
        if count > 0:
            self._dropped += count
            self._metrics.records_dropped.labels("print").inc(count)
