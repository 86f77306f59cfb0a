"""A tap that makes a record of each message and request that sessions relay, with what became of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.transitions import Peer
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.message_recorder import CommandSelector, MessageRecorder, PendingBudget, cost_of
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.record_queue import RecordQueue
from amqproxy.taps.tap import TappedSession
from amqproxy.taps.trace.connection_trace import Trace
from amqproxy.taps.trace.events import TraceEvent

SelectorOf = Callable[[int, str], CommandSelector]
"""Given the number and the name of a session, what selects its messages."""


class _ObservedSession(NamedTuple):
    trace: Trace
    recorder: MessageRecorder


class MessageTap:
    """Puts the records of messages into `queue`; they contain the first `body` bytes of each body.

    What rules changed is reported as the client sent or received it. With `selector_of`, only what that selects is
    reported; it is given the first `kept_body` bytes of a body. Messages that are open take at most `memory` bytes.
    """

    def __init__(
        self,
        queue: RecordQueue,
        *,
        memory: int,
        body: int = 0,
        kept_body: int = 0,
        selector_of: SelectorOf | None = None,
    ) -> None:
        self._queue = queue
        self._body = body
        self._kept_body = max(body, kept_body)
        self._selector_of = selector_of
        self._budget = PendingBudget(memory)
        self._observed: dict[int, _ObservedSession] = {}

    def saw_protocol_header(self, session: TappedSession, data: bytes) -> None:
        selector = self._selector_of(session.number, session.name) if self._selector_of else None
        recorder = MessageRecorder(
            session.number, session.name, body=self._body, selector=selector, budget=self._budget
        )
        observed = self._observed[session.number] = _ObservedSession(Trace(body=self._kept_body), recorder)
        observed.trace.feed_protocol_header(time.time_ns())

    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Frame], note: Note = NOTHING) -> None:
        observed = self._observed.get(session.number)
        if observed is not None and note.leg != "upstream":
            observed.recorder.learn(sender, frames)
            self._report(observed, observed.trace.feed(sender, frames, time.time_ns()), note)

    def saw_violation(self, session: TappedSession, sender: Peer, error: ProtocolError) -> None:
        observed = self._observed.get(session.number)
        if observed is not None:
            self._report(observed, observed.trace.gap(sender, time.time_ns(), str(error)))

    def saw_end(self, session: TappedSession, reason: str) -> None:
        observed = self._observed.pop(session.number, None)
        if observed is not None:
            self._report(observed, observed.trace.end(time.time_ns(), reason))

    def report_overdue(self) -> None:
        """Report what has been open for long as pending. To be called now and then."""
        now_ns = time.time_ns()
        for observed in self._observed.values():
            self._add(observed.recorder.overdue(now_ns))

    def _report(self, observed: _ObservedSession, events: list[TraceEvent], note: Note = NOTHING) -> None:
        if events:
            self._add(observed.recorder.record(events, note))

    def _add(self, records: list[MessageRecord]) -> None:
        queue = self._queue
        for made, record in enumerate(records):
            cost = cost_of(record)
            if not queue.has_room(cost, len(records) - made):
                break
            queue.add(record, cost)
        if records:
            queue.wake()
