"""Prints what passes, without ever holding it up: records wait in a bounded line, or are dropped."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypedDict

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import BODY, Frame
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.record import Record, record_error, record_frame, record_protocol_header
from amqproxy.taps.tap import TappedSession

RECORD_COST = 1024
"""Bytes that a record takes, about, besides its fields."""

DECODED_FACTOR = 4
"""How many times the bytes of a method or header its decoded form takes, about."""


class Printer:
    """A tap that makes records of what sessions relay, and hands them out in batches.

    `backlog` bounds the records that wait, `memory` the bytes that they and those that were taken last may take. `wake`
    is called when there is something to take. Records contain the first `body` bytes of each body frame.
    """

    def __init__(self, backlog: int, memory: int, metrics: Metrics, wake: Callable[[], None], *, body: int = 0) -> None:
        self._backlog = backlog
        self._body = body
        self._memory = memory
        self._waiting_size = 0
        self._taken_size = 0
        self._metrics = metrics
        self._wake = wake
        self._waiting: deque[Record] = deque()
        self._dropped = 0
        self._is_closed = False

    def close(self) -> None:
        """Make no more records, since they are not read."""
        self._is_closed = True
        self._waiting.clear()
        self._waiting_size = self._taken_size = 0

    def take_records(self) -> deque[Record]:
        """The records that wait. Those that were taken before are taken to be printed by now."""
        records, self._waiting = self._waiting, deque()
        self._taken_size, self._waiting_size = self._waiting_size, 0
        return records

    def take_dropped(self) -> int:
        """How many records there was no room for since this was last asked."""
        dropped, self._dropped = self._dropped, 0
        return dropped

    def saw_protocol_header(self, session: TappedSession, data: bytes) -> None:
        if self._has_room(RECORD_COST):
            self._add(record_protocol_header(data, sender=CLIENT, **_where(session)), RECORD_COST)
        self._wake()

    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Frame], note: Note = NOTHING) -> None:
        where = _where(session)
        for made, frame in enumerate(frames):
            cost = _cost(frame, self._body)
            if not self._has_room(cost, len(frames) - made):
                break  # the rest is not even made
            self._add(record_frame(frame, sender=sender, note=note, body=self._body, **where), cost)
        self._wake()

    def saw_violation(self, session: TappedSession, sender: Peer, error: ProtocolError) -> None:
        if self._has_room(RECORD_COST):
            self._add(record_error(error, sender=sender, **_where(session)), RECORD_COST)
        self._wake()

    def _has_room(self, cost: int, count: int = 1) -> bool:
        """Is there room for one more record? Else `count` are dropped."""
        if self._is_closed:
            return False
        used = self._waiting_size + self._taken_size
        if len(self._waiting) < self._backlog and used + cost <= self._memory:
            return True
        self._dropped += count
        self._metrics.records_dropped.labels("print").inc(count)
        return False

    def _add(self, record: Record, cost: int) -> None:
        self._waiting.append(record)
        self._waiting_size += cost


def _cost(frame: Frame, body: int) -> int:
    """The bytes that the record of a frame takes, about."""
    shown = min(frame.size, body) if frame.kind == BODY else frame.size
    return RECORD_COST + DECODED_FACTOR * shown


class _Where(TypedDict):
    ts_ns: int
    stream: int
    connection: str


def _where(session: TappedSession) -> _Where:
    return {"ts_ns": time.time_ns(), "stream": session.number, "connection": session.name}
