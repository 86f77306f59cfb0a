"""A tap that makes a record of each frame that sessions relay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict

from amqproxy.amqp010.frame import BODY as AMQP010_BODY
from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp091.frame import BODY, Frame
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.taps.amqp010.chunk import Amqp010Chunk
from amqproxy.taps.amqp010.record import record_amqp010_frame
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.record import record_error, record_frame, record_protocol_header
from amqproxy.taps.record_queue import PrintedRecord, RecordQueue
from amqproxy.taps.tap import AnyProtocolError, TappedSession, present

RECORD_COST = 1024
"""Bytes that a record takes, about, besides its fields."""

DECODED_FACTOR = 4
"""How many times the bytes of a method or header its decoded form takes, about."""


class FrameTap:
    """Puts the records of frames into `queue`; they contain the first `body` bytes of each body frame.

    `clock` is when what is shown has passed, in nanoseconds since 1970.
    """

    requires_decoding = True
    may_miss_frames = False

    def __init__(self, queue: RecordQueue[PrintedRecord], *, body: int = 0, clock: Callable[[], int] = present) -> None:
        self._queue = queue
        self._body = body
        self._clock = clock

    def saw_protocol_header(self, session: TappedSession, data: bytes, sender: Peer = CLIENT) -> None:
        if self._queue.has_room(RECORD_COST):
            self._queue.add(record_protocol_header(data, sender=sender, **self._where(session)), RECORD_COST)
        self._queue.wake()

    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Frame], note: Note = NOTHING) -> None:
        queue, where = self._queue, self._where(session)
        for made, frame in enumerate(frames):
            cost = _cost(frame, self._body)
            if not queue.has_room(cost, len(frames) - made):
                break  # the rest is not even made
            queue.add(record_frame(frame, sender=sender, note=note, body=self._body, **where), cost)
        queue.wake()

    def saw_amqp010_frames(
        self, session: TappedSession, sender: Peer, frames: Amqp010Chunk, note: Note = NOTHING
    ) -> None:
        queue, where = self._queue, self._where(session)
        for made, (frame, number) in enumerate(zip(frames, frames.command_ids, strict=True)):
            cost = _amqp010_cost(frame, self._body)
            if not queue.has_room(cost, len(frames) - made):
                break
            record = record_amqp010_frame(frame, sender=sender, command_id=number, note=note, body=self._body, **where)
            queue.add(record, cost)
        queue.wake()

    def saw_gap(self, session: TappedSession, frames: int) -> None:
        self._queue.drop(frames)
        self._queue.wake()

    def saw_violation(self, session: TappedSession, sender: Peer, error: AnyProtocolError) -> None:
        if self._queue.has_room(RECORD_COST):
            self._queue.add(record_error(error, sender=sender, **self._where(session)), RECORD_COST)
        self._queue.wake()

    def saw_end(self, session: TappedSession, reason: str) -> None:
        """There is no record of it."""

    def _where(self, session: TappedSession) -> _Where:
        return {"ts_ns": self._clock(), "stream": session.number, "connection": session.name}


def _cost(frame: Frame, body: int) -> int:
    """The bytes that the record of a frame takes, about."""
    shown = min(frame.size, body) if frame.kind == BODY else frame.size
    return RECORD_COST + DECODED_FACTOR * shown


def _amqp010_cost(frame: Amqp010Frame, body: int) -> int:
    shown = min(frame.size, body) if frame.kind == AMQP010_BODY else frame.size
    return RECORD_COST + DECODED_FACTOR * shown


class _Where(TypedDict):
    ts_ns: int
    stream: int
    connection: str
