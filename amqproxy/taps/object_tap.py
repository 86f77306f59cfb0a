"""A tap that counts messages by user, virtual host, exchange and queue, and findings by kind, for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from prometheus_client import CollectorRegistry, Counter

from amqproxy.amqp091.methods import BasicGetOk
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.taps.bounded_series import BoundedSeries
from amqproxy.taps.findings.connection_findings import ConnectionFindings
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.findings.process_inspector import ProcessInspector
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.protocol_error import AnyProtocolError
from amqproxy.taps.session_trace import SESSIONS_A_STEP, SessionTrace, relieve_in_steps
from amqproxy.taps.tap import DecodedOnly, TappedSession
from amqproxy.taps.trace.events import (
    ChannelClosed,
    ConnectionOpened,
    DeliveriesSettled,
    MessageDelivered,
    MessagePublished,
    MessageReturned,
    PublishesSettled,
    Settlement,
    TraceEvent,
)
from amqproxy.taps.trace.snapshot import ConnectionSnapshot

MAX_MEMORY = 64 << 20
"""Limit in bytes on the open state of the traces of all sessions."""

MAX_CONSUMERS = 1024
"""Limit on one connection's consumers with a known queue, the newest; others' settlements count for the queue ""."""

_SETTLED = {
    Settlement.CONFIRMED: "confirmed",
    Settlement.NACKED: "nacked",
    Settlement.ACKED: "acked",
    Settlement.REJECTED: "rejected",
}


class ObjectMetrics:
    """Counters of messages by the labels `by`, some of "user", "vhost", "exchange" and "queue", and of findings.

    `series` is `None` if `by` is empty, `findings` if they are disabled.
    """

    def __init__(self, by: Sequence[str], *, max_series: int, findings: bool, registry: CollectorRegistry) -> None:
        self.by = tuple(by)
        self.series: BoundedSeries | None = None
        if by:
            beyond = Counter(
                "amqproxy_series_refused",
                "Messages counted as other, as there were as many series as may be.",
                registry=registry,
            )
            text = "Messages by what became of them, and by the objects that they are about."
            self.series = BoundedSeries(
                "amqproxy_messages_by", text, ["event"], by, most=max_series, beyond=beyond, registry=registry
            )
        self.findings: Counter | None = None
        if findings:
            text = "What an expert would point out: see docs/findings.md."
            self.findings = Counter("amqproxy_findings", text, ["kind", "severity"], registry=registry)

    def count_findings(self, findings: Iterable[Finding]) -> None:
        """Count findings, of which only the first, the tenth, the hundredth … is reported: add all up to each."""
        if self.findings is not None:
            for each in findings:
                self.findings.labels(each.kind, str(each.severity)).inc(each.count - each.count // 10)


class _ObservedSession:
    """One session: its trace, and the labels of its counts."""

    def __init__(self, session: TappedSession, metrics: ObjectMetrics, process_inspector: ProcessInspector) -> None:
        self.number = session.number
        self._session = session
        self.trace = SessionTrace()
        self._metrics = metrics
        self._known = {"user": "", "vhost": ""}
        self._queues: dict[tuple[int, str | None], str] = {}
        self._findings: ConnectionFindings | None = None
        if metrics.findings is not None:
            self._findings = ConnectionFindings(
                self.trace,
                session.number,
                session.name,
                is_tls=session.is_tls,
                process_inspector=process_inspector,
            )

    @property
    def memory_used(self) -> int:
        """Approximate memory of the trace's open state, in bytes."""
        return self.trace.memory_used

    def count(self, events: list[TraceEvent]) -> None:
        """Count events, and the findings made from them."""
        if self._metrics.series is not None:
            for event in events:
                self._count_event(event)
        if self._findings is not None:
            self._metrics.count_findings(self._findings.take())

    def look(self, now_ns: int) -> None:
        """Count the findings that are due by the passage of time alone."""
        if self._findings is not None:
            self._metrics.count_findings(self._findings.look(now_ns, self._session.stalled_ns))

    def _count_event(self, event: TraceEvent) -> None:
        match event:
            case ConnectionOpened():
                self._known = {"user": event.user or "", "vhost": event.virtual_host or ""}
            case MessagePublished():
                self._add("published", exchange=event.method.exchange)
            case MessageReturned():
                self._add("returned", exchange=event.method.exchange)
            case PublishesSettled() if event.outcome in _SETTLED:
                self._add(_SETTLED[event.outcome], amount=sum(span.count for span in event.spans))
            case MessageDelivered():
                self._deliver(event)
            case DeliveriesSettled(outcome=Settlement.RECOVERED):
                self._settle("requeued", event)
            case DeliveriesSettled() if event.outcome in _SETTLED:
                is_ack = event.outcome is Settlement.ACKED
                self._settle("acked" if is_ack else "requeued" if event.requeue else "rejected", event)
            case ChannelClosed():
                for key in [each for each in self._queues if each[0] == event.channel]:
                    del self._queues[key]
            case _:
                pass

    def _deliver(self, event: MessageDelivered) -> None:
        method = event.method
        queue = event.queue or ""
        self._add("delivered", exchange=method.exchange, queue=queue)
        if method.redelivered:
            self._add("redelivered", exchange=method.exchange, queue=queue)
        if not isinstance(method, BasicGetOk):
            consumer = event.channel, method.consumer_tag
            if consumer not in self._queues and len(self._queues) >= MAX_CONSUMERS:
                del self._queues[next(iter(self._queues))]
            self._queues[consumer] = queue

    def _settle(self, name: str, event: DeliveriesSettled) -> None:
        for span in event.spans:
            self._add(name, queue=self._queues.get((event.channel, span.consumer_tag), ""), amount=span.count)

    def _add(self, event: str, *, exchange: str = "", queue: str = "", amount: int = 1) -> None:
        known = {**self._known, "exchange": exchange, "queue": queue}
        if self._metrics.series is not None and amount:
            self._metrics.series.count((event,), tuple(known[label] for label in self._metrics.by), amount)


class ObjectTap(DecodedOnly):
    """Tap that counts the messages and findings of sessions in `metrics`, as seen on the client's leg.

    A session whose trace fails is no longer counted, without an effect on others: `contain` is `supervision.contained`.
    """

    may_miss_frames = False
    joins = 0

    def __init__(
        self, metrics: ObjectMetrics, contain: Callable[..., AbstractContextManager[None]], *, memory: int = MAX_MEMORY
    ) -> None:
        self._metrics = metrics
        self._contain = contain
        self._memory = memory
        self._sessions: dict[int, _ObservedSession | None] = {}
        self._process_inspector = ProcessInspector()
        self.count_findings = metrics.count_findings
        """Counts findings that no session shows."""

    def saw_protocol_header(self, session: TappedSession, data: bytes, sender: Peer = CLIENT) -> None:
        if sender is CLIENT:
            self._take(session, lambda observed: observed.trace.feed_protocol_header(time.time_ns()))

    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Any], note: Note = NOTHING) -> None:
        if note.leg != "upstream":
            self._take(
                session,
                lambda observed: observed.count(observed.trace.feed_noted(sender, frames, time.time_ns(), note)),
            )

    def saw_gap(self, session: TappedSession, frames: int) -> None:
        self._take(session, lambda observed: observed.count(observed.trace.gap(CLIENT, time.time_ns(), "not shown")))

    def saw_snapshot(self, session: TappedSession, snapshot: ConnectionSnapshot) -> None:
        self._take(session, lambda observed: observed.count(observed.trace.restore(snapshot)))

    def saw_violation(self, session: TappedSession, sender: Peer, error: AnyProtocolError) -> None:
        if session.number in self._sessions:
            self._take(session, lambda observed: observed.count(observed.trace.gap(sender, time.time_ns(), str(error))))

    def saw_end(self, session: TappedSession, reason: str) -> None:
        if session.number in self._sessions:
            self._take(session, lambda observed: observed.count(observed.trace.end(time.time_ns(), reason)))
            del self._sessions[session.number]

    def relieve(self) -> Iterator[None]:
        """Make the largest traces forget their open state if all exceed the limit; yield between steps."""
        yield from relieve_in_steps(self._all_observed, self._memory, self._forget)
        now_ns = time.time_ns()
        for looked_at, each in enumerate(self._all_observed(), 1):
            each.look(now_ns)
            if not looked_at % SESSIONS_A_STEP:
                yield
        self._metrics.count_findings(self._process_inspector.look(now_ns))

    def _all_observed(self) -> list[_ObservedSession]:
        return [each for each in self._sessions.values() if each is not None]

    def _forget(self, observed: _ObservedSession) -> None:
        number = observed.number
        with self._contain("session not counted", then=lambda _: self._give_up(number), session=number):
            observed.count(observed.trace.gap(CLIENT, time.time_ns(), "too much is open on all connections"))

    def _take(self, session: TappedSession, count: Callable[[_ObservedSession], None]) -> None:
        number = session.number
        if number not in self._sessions:
            self._sessions[number] = _ObservedSession(session, self._metrics, self._process_inspector)
        observed = self._sessions[number]
        if observed is not None:
            with self._contain("session not counted", then=lambda _: self._give_up(number), session=number):
                count(observed)

    def _give_up(self, number: int) -> None:
        if number in self._sessions:  # unless it has ended meanwhile
            self._sessions[number] = None
