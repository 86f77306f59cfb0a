"""A tap that records each frame that sessions relay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

from amqproxy.peer import CLIENT, Peer
from amqproxy.taps.dialects import chunk_of
from amqproxy.taps.frame_chunk import BODY
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.protocol_error import AnyProtocolError
from amqproxy.taps.record import record_error, record_protocol_header
from amqproxy.taps.record_queue import PrintedRecord, RecordQueue
from amqproxy.taps.tap import DecodedOnly, TappedSession, present
from amqproxy.taps.trace.snapshot import ConnectionSnapshot

RECORD_COST = 1024
"""Approximate memory of a record, in bytes, in addition to its fields."""

DECODED_FACTOR = 4
"""Approximate ratio of a decoded method or header to its encoded size."""


class FrameTap(DecodedOnly):
    """Tap that puts a record of each frame into `queue`, with the first `body` bytes of body frames.

    `clock` returns the time at which the frames shown have passed, in nanoseconds since 1970.
    """

    may_miss_frames = False
    joins = 0

    def __init__(self, queue: RecordQueue[PrintedRecord], *, body: int = 0, clock: Callable[[], int] = present) -> None:
        self._queue = queue
        self._body = body
        self._clock = clock

    def saw_protocol_header(self, session: TappedSession, data: bytes, sender: Peer = CLIENT) -> None:
        if self._queue.has_room(RECORD_COST):
            self._queue.add(record_protocol_header(data, sender=sender, **self._where(session)), RECORD_COST)
        self._queue.wake()

    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Any], note: Note = NOTHING) -> None:
        queue, body = self._queue, self._body
        chunk = chunk_of(frames)
        records = chunk.records(note, body, sender=sender, **self._where(session))
        for made, frame in enumerate(chunk):
            shown = min(frame.size, body) if frame.kind == BODY else frame.size
            cost = RECORD_COST + DECODED_FACTOR * shown
            if not queue.has_room(cost, len(chunk) - made):
                break  # the other records are not even made
            queue.add(next(records), cost)
        queue.wake()

    def saw_gap(self, session: TappedSession, frames: int) -> None:
        self._queue.drop(frames)
        self._queue.wake()

    def saw_snapshot(self, session: TappedSession, snapshot: ConnectionSnapshot) -> None:
        """Ignore the state of a session, which has no record."""

    def saw_violation(self, session: TappedSession, sender: Peer, error: AnyProtocolError) -> None:
        if self._queue.has_room(RECORD_COST):
            self._queue.add(record_error(error, sender=sender, **self._where(session)), RECORD_COST)
        self._queue.wake()

    def saw_end(self, session: TappedSession, reason: str) -> None:
        """Ignore the end of a session, which has no record."""

    def _where(self, session: TappedSession) -> _Where:
        return {"ts_ns": self._clock(), "stream": session.number, "connection": session.name}


class _Where(TypedDict):
    ts_ns: int
    stream: int
    connection: str
