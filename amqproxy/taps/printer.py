"""Prints what passes, without ever holding it up: records wait in a bounded line, or are dropped."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TypedDict

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frames import Frame
from amqproxy.amqp091.grammar import CLIENT, Peer
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.record import Record, record_error, record_frame, record_protocol_header
from amqproxy.taps.tap import Watched


class Printer:
    """A tap that makes records of what sessions relay, and hands them out in batches.

    `backlog` bounds the records that wait. `wake` is called when there is something to take.
    """

    def __init__(self, backlog: int, metrics: Metrics, wake: Callable[[], None]) -> None:
        self._backlog = backlog
        self._metrics = metrics
        self._wake = wake
        self._waiting: deque[Record] = deque()
        self._dropped = 0

    def take(self) -> deque[Record]:
        """The records that wait."""
        records, self._waiting = self._waiting, deque()
        return records

    def take_dropped(self) -> int:
        """How many records there was no room for since this was last asked."""
        dropped, self._dropped = self._dropped, 0
        return dropped

    def saw_protocol_header(self, session: Watched, octets: bytes) -> None:
        self._add(1, (record_protocol_header(octets, sender=CLIENT, **_where(session)),))

    def saw_frames(self, session: Watched, sender: Peer, frames: Sequence[Frame]) -> None:
        where = _where(session)
        self._add(len(frames), (record_frame(frame, sender=sender, **where) for frame in frames))

    def saw_violation(self, session: Watched, sender: Peer, error: ProtocolError) -> None:
        self._add(1, (record_error(error, sender=sender, **_where(session)),))

    def _add(self, count: int, records: Iterable[Record]) -> None:
        """Keep as many of the `count` records as there is room for; the rest is not even made."""
        room = self._backlog - len(self._waiting)
        self._waiting.extend(islice(records, room))
        if count > room:
            self._dropped += count - room
            self._metrics.records_dropped.labels("print").inc(count - room)
        self._wake()


class _Where(TypedDict):
    ts_ns: int
    stream: int
    connection: str


def _where(session: Watched) -> _Where:
    return {"ts_ns": time.time_ns(), "stream": session.number, "connection": session.name}
