"""Tap that traces sessions for OpenTelemetry."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_address
from typing import Any

from amqproxy.configuration.values import split_address
from amqproxy.peer import CLIENT, Peer
from amqproxy.process.supervision import contained
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.protocol_error import AnyProtocolError
from amqproxy.taps.session_trace import SessionTrace, relieve_in_steps
from amqproxy.taps.tap import DecodedOnly, TappedSession
from amqproxy.taps.trace.snapshot import ConnectionSnapshot
from amqproxy.telemetry.message_span import AttributeValue, MessageSpan
from amqproxy.telemetry.sampler import Sampler
from amqproxy.telemetry.span_budget import SpanBudget
from amqproxy.telemetry.span_queue import SpanQueue
from amqproxy.telemetry.span_recorder import SpanRecorder


class TracedSession:
    """One session: its trace, and the recorder of its spans."""

    def __init__(self, recorder: SpanRecorder) -> None:
        self.trace = SessionTrace()
        self.recorder = recorder

    @property
    def memory_used(self) -> int:
        """Approximate memory of the trace's open state, in bytes."""
        return self.trace.memory_used

    def feed(self, sender: Peer, frames: Sequence[Any], note: Note) -> list[MessageSpan]:
        """Take frames; return the spans that they complete."""
        return self.recorder.record(self.trace.feed_noted(sender, frames, time.time_ns(), note), note)

    def gap(self, sender: Peer, reason: str) -> list[MessageSpan]:
        """Forget the open state, since bytes were unreadable or memory is short; return the spans ended by that."""
        return self.recorder.record(self.trace.gap(sender, time.time_ns(), reason))

    def end(self, reason: str) -> list[MessageSpan]:
        """Take the end of the session; return its last spans."""
        self.recorder.note_end(reason)
        return self.recorder.record(self.trace.end(time.time_ns(), reason))


class SpanTap(DecodedOnly):
    """Tap that puts the spans of messages into `queue`, in the form that the client sent and received.

    `upstream` is the broker's address, or "broker" for the integrated one. `count_dropped` is called with the number of
    spans that were dropped for lack of room. A session whose trace fails is no longer traced, without an effect on
    others.
    """

    may_miss_frames = False
    joins = 0

    def __init__(
        self,
        queue: SpanQueue,
        sampler: Sampler,
        budget: SpanBudget,
        count_dropped: Callable[[int], None],
        *,
        upstream: str,
    ) -> None:
        self._queue = queue
        self._sampler = sampler
        self._budget = budget
        self._count_dropped = count_dropped
        self._server = server_attributes(upstream)
        self._sessions: dict[int, TracedSession | None] = {}

    def saw_protocol_header(self, session: TappedSession, data: bytes, sender: Peer = CLIENT) -> None:
        if sender is not CLIENT:
            return
        traced = self._traced(session)
        if traced is not None:
            traced.trace.feed_protocol_header(time.time_ns())

    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Any], note: Note = NOTHING) -> None:
        if note.leg != "upstream":
            self._take(session, lambda traced: traced.feed(sender, frames, note))

    def saw_gap(self, session: TappedSession, frames: int) -> None:
        self._take(session, lambda traced: traced.gap(CLIENT, "not shown"))

    def saw_snapshot(self, session: TappedSession, snapshot: ConnectionSnapshot) -> None:
        self._take(session, lambda traced: traced.recorder.record(traced.trace.restore(snapshot)))

    def saw_violation(self, session: TappedSession, sender: Peer, error: AnyProtocolError) -> None:
        if session.number in self._sessions:
            self._take(session, lambda traced: traced.gap(sender, str(error)))

    def saw_end(self, session: TappedSession, reason: str) -> None:
        if session.number in self._sessions:
            self._take(session, lambda traced: traced.end(reason))
            del self._sessions[session.number]

    def relieve(self, memory: int) -> Iterator[None]:
        """Make the largest traces forget their open state while all take more than `memory` bytes together.

        Yields after every few traces, so that other tasks can run.
        """
        return relieve_in_steps(self._all_traced, memory, self._forget)

    def _all_traced(self) -> list[TracedSession]:
        return [each for each in self._sessions.values() if each is not None]

    def _forget(self, traced: TracedSession) -> None:
        self._queue.add(traced.gap(CLIENT, "too much is open on all connections"))

    def _traced(self, session: TappedSession) -> TracedSession | None:
        number = session.number
        if number not in self._sessions:
            attributes = {**self._server, **client_attributes(session)}
            recorder = SpanRecorder(attributes, self._sampler, self._budget, self._count_dropped)
            self._sessions[number] = TracedSession(recorder)
        return self._sessions[number]

    def _take(self, session: TappedSession, spans_of: Callable[[TracedSession], list[MessageSpan]]) -> None:
        """Queue the completed spans of a session; stop tracing the session if its trace fails."""
        traced = self._traced(session)
        if traced is None:
            return

        def give_up(failure: Exception) -> None:
            self._sessions[session.number] = None
            traced.recorder.forget()

        with contained("session not traced", then=give_up, session=session.number):
            spans = spans_of(traced)
            if spans:
                self._queue.add(spans)


def server_attributes(upstream: str, *, has_peer: bool = True) -> dict[str, AttributeValue]:
    """Return the broker's address as attributes, also as that of the network's peer; none for the integrated broker."""
    if upstream == "broker":
        return {}
    host, port = split_address(upstream)
    found: dict[str, AttributeValue] = {"server.address": host, "server.port": port}
    if not has_peer:
        return found
    try:
        ip_address(host)
    except ValueError:
        return found
    return {**found, "network.peer.address": host, "network.peer.port": port}


def client_attributes(session: TappedSession) -> dict[str, AttributeValue]:
    """Return the client's address as attributes, with the number of its session, as in the log."""
    found: dict[str, AttributeValue] = {"amqproxy.session": session.number}
    host, _, port = session.name.partition("-")[0].rpartition(":")
    if port.isdecimal():
        found["client.address"], found["client.port"] = host.strip("[]"), int(port)
    return found
