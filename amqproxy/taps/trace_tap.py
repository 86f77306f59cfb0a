"""A tap that reports on sessions: messages with their outcomes, and findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from amqproxy.peer import CLIENT, Peer
from amqproxy.taps.findings.process_inspector import ProcessInspector
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.message_recorder import SelectorOf
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.observer import Observer, ObserverSettings, Report
from amqproxy.taps.pending_messages import RECORD_COST, PendingBudget, cost_of
from amqproxy.taps.protocol_error import AnyProtocolError
from amqproxy.taps.record_queue import PrintedRecord, RecordQueue
from amqproxy.taps.session_trace import to_relieve
from amqproxy.taps.tap import DecodedOnly, TappedSession, present
from amqproxy.taps.trace.snapshot import ConnectionSnapshot
from amqproxy.taps.trace.steps import Steps, run

OBSERVERS_A_STEP = 100
"""Number of connections checked for overdue messages in one step."""


class TraceTap(DecodedOnly):
    """Tap that puts reports into `queue`. Commands that rules changed are reported as the client sent or received them.

    With `selector_of`, only the messages that it selects are reported, and errors. The records of open messages take at
    most `memory` bytes, and so do the traces at each check, once a second. `clock` returns the time at which the frames
    shown have passed, in nanoseconds since 1970.
    """

    may_miss_frames = False
    joins = 0

    def __init__(
        self,
        queue: RecordQueue[PrintedRecord],
        settings: ObserverSettings,
        *,
        memory: int,
        selector_of: SelectorOf | None = None,
        clock: Callable[[], int] = present,
    ) -> None:
        self._clock = clock
        self._queue = queue
        self._settings = settings
        self._selector_of = selector_of
        self._memory = memory
        self._budget = PendingBudget(memory)
        self._process_inspector = ProcessInspector() if settings.findings else None
        self._observers: dict[int, Observer] = {}
        self._sessions: dict[int, TappedSession] = {}

    def traces(self, session: TappedSession) -> bool:
        """Return whether events of the session were shown, but not its end."""
        return session.number in self._observers

    def saw_protocol_header(self, session: TappedSession, data: bytes, sender: Peer = CLIENT) -> None:
        if sender is CLIENT:
            self._observer(session).feed_protocol_header(self._clock())

    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Any], note: Note = NOTHING) -> None:
        if note.leg != "upstream":
            self._add(self._observer(session).feed(sender, frames, self._clock(), note))

    def _observer(self, session: TappedSession) -> Observer:
        number, name = session.number, session.name
        observer = self._observers.get(number)
        if observer is None:
            self._sessions[number] = session
            observer = self._observers[number] = Observer(
                number,
                name,
                self._settings,
                selector=self._selector_of(number, name) if self._selector_of else None,
                budget=self._budget,
                is_tls=session.is_tls,
                process_inspector=self._process_inspector,
            )
        return observer

    def saw_gap(self, session: TappedSession, frames: int) -> None:
        self._queue.drop(1)
        self._add(self._observer(session).gap(CLIENT, self._clock(), f"{frames} frames passed too fast to be shown"))

    def saw_snapshot(self, session: TappedSession, snapshot: ConnectionSnapshot) -> None:
        run(self.showing_snapshot(session, snapshot))

    def showing_snapshot(self, session: TappedSession, snapshot: ConnectionSnapshot) -> Steps[None]:
        """Like `saw_snapshot`, in steps, between which nothing of this session may be shown."""
        self._add((yield from self._observer(session).restoring(snapshot)))

    def saw_violation(self, session: TappedSession, sender: Peer, error: AnyProtocolError) -> None:
        observer = self._observers.get(session.number)
        if observer is not None:
            self._add(observer.gap(sender, self._clock(), str(error)))

    def saw_end(self, session: TappedSession, reason: str) -> None:
        observer = self._observers.pop(session.number, None)
        self._sessions.pop(session.number, None)
        if observer is not None:
            self._add(observer.end(self._clock(), reason))

    def note_gap(self, reason: str) -> None:
        """Report everything open as unknown: frames of any session were withheld, and sessions may have ended."""
        now_ns = self._clock()
        observers, self._observers = self._observers, {}
        self._sessions.clear()
        for observer in observers.values():
            for peer in Peer:
                self._add(observer.gap(peer, now_ns, reason))

    def report_overdue(self) -> Iterator[None]:
        """Report overdue messages as pending; yield after every `OBSERVERS_A_STEP` connections to let others run."""
        now_ns = self._clock()
        total = 0
        for looked_at, (number, observer) in enumerate(list(self._observers.items()), 1):
            if number in self._observers:  # unless its session has ended meanwhile
                self._add(observer.overdue(now_ns, self._sessions[number].stalled_ns))
                total += observer.memory_used
            if not looked_at % OBSERVERS_A_STEP:
                yield
        if total > self._memory:
            self._relieve(now_ns)
        if self._process_inspector is not None:
            self._add(self._process_inspector.look(now_ns))

    def _relieve(self, now_ns: int) -> None:
        """Forget the open state of the largest connections until the rest is within the limit."""
        for observer in to_relieve(self._observers.values(), self._memory):
            self._add(observer.gap(CLIENT, now_ns, "too much is open on all connections"))

    def pending(self) -> list[MessageRecord]:
        """Return the open messages of all connections, as pending."""
        return [record for observer in self._observers.values() for record in observer.pending()]

    def _add(self, reports: Sequence[Report]) -> None:
        queue = self._queue
        for made, report in enumerate(reports):
            cost = cost_of(report) if isinstance(report, MessageRecord) else RECORD_COST
            if not queue.has_room(cost, len(reports) - made):
                break
            queue.add(report, cost)
        if reports:
            queue.wake()
