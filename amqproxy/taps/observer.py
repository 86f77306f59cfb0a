"""Reports on one connection from its trace: messages, findings, or both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from amqproxy.amqp091.protocol_header import foreign_answer, recognise
from amqproxy.peer import SERVER, Peer
from amqproxy.taps.findings.connection_findings import ConnectionFindings
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.findings.process_inspector import ProcessInspector
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.message_recorder import CommandSelector, MessageRecorder
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.pending_messages import PendingBudget
from amqproxy.taps.session_trace import SessionTrace
from amqproxy.taps.trace.events import TraceEvent
from amqproxy.taps.trace.snapshot import ConnectionSnapshot
from amqproxy.taps.trace.steps import Steps

Report: TypeAlias = MessageRecord | Finding

OnEvents: TypeAlias = Callable[[Sequence[TraceEvent], Note], None]
"""Callback for the events of one connection as they happen, with the effect of rules on their command."""


class ObserverSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the reports: `messages`, `findings`, or both.

    Messages contain the first `body` bytes of each body; their selector is given the first `kept_body` bytes.
    With `digests`, events have a digest of each body.
    With `counts_findings`, each finding is reported, and not only the first of a kind, the tenth, the hundredth ….
    `is_ordered` is whether frames are fed in the order in which they passed; else only those of each peer are.
    """

    messages: bool = True
    findings: bool = False
    counts_findings: bool = False
    body: int = 0
    kept_body: int = 0
    digests: bool = False
    is_ordered: bool = True


class Observer:
    """Reports on one connection, numbered `stream` and named `connection`, whose client's end comes first.

    With a `selector`, only the messages that it selects are reported, and errors. `is_tls` is whether the connection is
    encrypted, if that is known. `process_inspector` is shared by the connections of a run. `on_events` is shown the
    events that the reports are made from.
    """

    def __init__(
        self,
        stream: int,
        connection: str,
        settings: ObserverSettings,
        *,
        selector: CommandSelector | None = None,
        budget: PendingBudget | None = None,
        is_tls: bool | None = None,
        process_inspector: ProcessInspector | None = None,
        on_events: OnEvents | None = None,
    ) -> None:
        self._on_events = on_events
        self._asked = ""
        self._trace = SessionTrace(
            body=max(settings.body, settings.kept_body), digests=settings.digests, is_ordered=settings.is_ordered
        )
        self._recorder: MessageRecorder | None = None
        if settings.messages:
            self._recorder = MessageRecorder(stream, connection, body=settings.body, selector=selector, budget=budget)
        self._findings: ConnectionFindings | None = None
        if settings.findings:
            inspector = process_inspector or ProcessInspector()
            self._findings = ConnectionFindings(
                self._trace,
                stream,
                connection,
                is_tls=is_tls,
                process_inspector=inspector,
                is_counting=settings.counts_findings,
            )

    @property
    def memory_used(self) -> int:
        """Approximate memory of the trace's open state, in bytes."""
        return self._trace.memory_used

    def feed_protocol_header(self, ts_ns: int, protocol: str = "") -> None:
        """Take the client's protocol header, of a `protocol` as `recognise` names it."""
        self._asked = protocol
        self._trace.feed_protocol_header(ts_ns)

    def feed_answer(self, ts_ns: int, header: bytes) -> list[Report]:
        """Take the server's protocol header; return a report if it is not of the client's protocol."""
        if not self._asked or recognise(header) == self._asked:
            return []
        return self.gap(SERVER, ts_ns, foreign_answer(header, self._asked))

    def feed(self, sender: Peer, frames: Sequence[Any], ts_ns: int, note: Note = NOTHING) -> list[Report]:
        """Take frames, with the effect of rules on their command; return the reports due."""
        if self._recorder is not None:
            self._recorder.learn(sender, frames)
        return self._reports(self._trace.feed_noted(sender, frames, ts_ns, note), note)

    def restore(self, snapshot: ConnectionSnapshot | None) -> list[Report]:
        """Take the state of the connection, as `SessionTrace.restore` does; return the reports that are due."""
        return self._reports(self._trace.restore(snapshot))

    def restoring(self, snapshot: ConnectionSnapshot) -> Steps[list[Report]]:
        """Like `restore`, in the steps of `SessionTrace.restoring`."""
        return self._reports((yield from self._trace.restoring(snapshot)))

    def gap(self, sender: Peer, ts_ns: int, reason: str, *, is_other_whole: bool = False) -> list[Report]:
        """Note that bytes are missing or unreadable, as `ConnectionTrace.gap`; return the reports that are due."""
        return self._reports(self._trace.gap(sender, ts_ns, reason, is_other_whole=is_other_whole))

    def end(self, ts_ns: int, reason: str, stalled_ns: int = 0, stalled_until_ns: int = 0) -> list[Report]:
        """Take the end of the connection; return reports. Its broker has accepted nothing for `stalled_ns`."""
        if stalled_ns:
            self._trace.activity.stalled_ns = stalled_ns
            self._trace.activity.stalled_until_ns = stalled_until_ns if stalled_until_ns < ts_ns else 0
        return self._reports(self._trace.end(ts_ns, reason))

    def overdue(self, now_ns: int, stalled_ns: int = 0) -> list[Report]:
        """Return the messages that have been open for long, and the findings due by the passage of time alone.

        `stalled_ns` is as in `TappedSession`.
        """
        reports: list[Report] = []
        if self._recorder is not None:
            reports += self._recorder.overdue(now_ns)
        if self._findings is not None:
            reports += self._findings.look(now_ns, stalled_ns)
        return reports

    def pending(self) -> list[MessageRecord]:
        """Return the open messages, as pending."""
        return [] if self._recorder is None else self._recorder.pending()

    def _reports(self, events: list[TraceEvent], note: Note = NOTHING) -> list[Report]:
        if not events:
            return []
        if self._on_events is not None:
            self._on_events(events, note)
        reports: list[Report] = []
        if self._recorder is not None:
            reports += self._recorder.record(events, note)
        if self._findings is not None:
            reports += self._findings.take()
        return reports
