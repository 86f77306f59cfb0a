"""Observation of a source's traffic: traces of its connections yield messages, findings, connections and activity."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from amqproxy.amqp091.methods import BasicGetOk, BasicReturn
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import (
    Decoded,
    DecodedFrames,
    SkippedBytes,
    StreamEnded,
)
from amqproxy.capture.observed import Observers
from amqproxy.capture.unreadable_bytes import MISSING
from amqproxy.dashboard.activity import Activity
from amqproxy.dashboard.connections import Connections, size_of
from amqproxy.dashboard.error_log import ErrorLog
from amqproxy.dashboard.flows import Arrival, Flows
from amqproxy.dashboard.frame_numbers import FrameNumbers
from amqproxy.dashboard.message_lives import MessageLives
from amqproxy.dashboard.message_ring import CONTENT_COST, Content, MessageRing
from amqproxy.dashboard.minutes import MINUTE_NS, Minutes, Name, client_of
from amqproxy.dashboard.missing_frames import MissingFrames
from amqproxy.dashboard.ring_entry import RingEntry
from amqproxy.dashboard.traced_topology import TracedTopology
from amqproxy.linking.message_life import Publish
from amqproxy.rabbitmq.profile import NEWEST, PROFILES
from amqproxy.readiness.uses import Uses
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.note import Note
from amqproxy.taps.observer import ObserverSettings, OnEvents, Report
from amqproxy.taps.record import encoded
from amqproxy.taps.session_trace import to_relieve
from amqproxy.taps.trace.events import (
    ConnectionOpened,
    MessageDelivered,
    MessagePublished,
    MessageReturned,
    RequestAnswered,
    RequestSent,
    RequestUnanswered,
    TraceEvent,
)

KEPT_BODY = 256 * 1024
"""Maximum size of the part of a message's body that is kept, in bytes."""

SHOWN_BODY = 200
"""Maximum size of the part of a body that a message's row shows, in bytes."""

OPEN_MEMORY = 32 * 1024 * 1024
"""Limit in bytes on the records of pending messages, on the traces, and on the kept commands, each."""

MAX_OBSERVERS = 20_000
"""Maximum number of traced connections; of further connections only the frames are shown."""

MAX_FINDINGS = 5_000

MAX_USES = 5_000
"""Maximum number of uses that stand against an upgrade of RabbitMQ."""

OBSERVERS_A_STEP = 100
"""Connections that are checked in one step of `look`."""

_SETTINGS = ObserverSettings(messages=True, findings=True, body=SHOWN_BODY, kept_body=KEPT_BODY)

Key: TypeAlias = tuple[int, int, str, int]
"""Connection, channel, record type, and the message's number or delivery tag."""


class Observation:
    """Traces all connections of one source; with `is_live`, traffic arrives in its order and at its time.

    Live findings are those of the proxy, which misses less than a reader does: `take_finding` is given each.
    """

    def __init__(self, memory: int, *, is_live: bool) -> None:
        self.messages = MessageRing(memory)
        self.findings = MessageRing(memory, MAX_FINDINGS)
        self.kinds: Counter[str] = Counter()
        """Number of findings of each kind."""
        self.newest: dict[str, Finding] = {}
        """The newest finding of each kind."""
        self.uses = Uses(PROFILES[NEWEST], MAX_USES)
        """Uses that stand against an upgrade of RabbitMQ."""
        self.connections = Connections()
        self.activity = Activity(is_live=is_live)
        self.lives = MessageLives(memory)
        self.minutes = Minutes()
        self.flows = Flows(is_live=is_live, minutes=self.minutes)
        self.errors = ErrorLog()
        self.topology = None if is_live else TracedTopology()
        """Topology of a capture; `None` for a proxy, which knows it."""
        self._is_live = is_live
        self._found: deque[Finding] = deque(maxlen=MAX_FINDINGS)
        """Findings of the proxy that may be about traffic which has not arrived."""
        self._observers = Observers(
            msgspec.structs.replace(_SETTINGS, findings=not is_live),
            listener_of=self._listener,
            is_live=is_live,
            memory=OPEN_MEMORY,
            max_observers=MAX_OBSERVERS,
        )
        self._numbers = FrameNumbers()
        self._contents = _Contents(OPEN_MEMORY)
        self._frame = 0
        self._minute = 0

    def take(self, entry: RingEntry, passed: Decoded | None = None) -> None:
        """Observe the traffic of one ring entry, which is a copy of what `passed`, if that is given."""
        decoded = entry.fresh() if passed is None else passed
        self._frame = max(0, entry.seq + entry.count - 1)
        if isinstance(decoded, MissingFrames):
            self.messages.append_gap(decoded, self._frame)
            return  # each connection has its own skipped bytes
        self.flows.seconds.take(decoded.ts_ns)
        self._begin_minute(decoded.ts_ns)
        frames: Sequence[Any] = ()
        if isinstance(decoded, DecodedFrames):
            size = size_of(decoded.frames)
            frames = list(decoded.frames)
            self.connections.take(decoded, entry.seq, entry.count, size)
            if isinstance(decoded, Amqp091DecodedFrames):
                self.activity.count_frames(decoded.ts_ns, decoded.sender, frames, size)
                self.connections.learn(decoded, frames, entry.seq)
            elif isinstance(decoded, Amqp010DecodedFrames):
                self.activity.count_amqp010_frames(decoded.ts_ns, decoded.sender, frames, size)
                self.connections.learn_amqp010(decoded, entry.seq)
        else:
            self.connections.take(decoded, entry.seq, entry.count)
            if isinstance(decoded, SkippedBytes):
                self.activity.count_error(decoded.ts_ns)
        if decoded.leg != "upstream":
            self._trace(decoded, frames, entry.seq)
        if self._found:
            self._keep_found(decoded.ts_ns)

    def take_finding(self, finding: Finding) -> None:
        """Take a finding of the proxy; it is shown once the traffic of its time has arrived."""
        self._found.append(finding)

    def _keep_found(self, until_ns: int) -> None:
        """Keep the findings up to a time."""
        while self._found and self._found[0].ts_ns <= until_ns:
            self._keep([self._found.popleft()])

    def lose(self, now_ns: int) -> None:
        """Note that some traffic was lost, so that rates and names of this time are incomplete."""
        self.flows.seconds.lose()
        self.minutes.at(now_ns).is_whole = False

    def clients(self, *, is_joined: bool = False) -> frozenset[Name]:
        """Return the clients with open connections, or those that were connected before they were seen."""
        seen = self.connections.seen.values()
        chosen = [each for each in seen if (each.is_joined if is_joined else each.is_open)]
        return frozenset([client_of(self.connections.party(each.stream, each.connection)) for each in chosen])

    def _begin_minute(self, now_ns: int) -> None:
        """Note at the beginning of each minute which clients are connected."""
        if now_ns // MINUTE_NS > self._minute:
            self._minute = now_ns // MINUTE_NS
            for client in self.clients():
                self.minutes.see(client, now_ns)
            self.minutes.at(now_ns).connections = sum(each.is_open for each in self.connections.seen.values())

    def note_gap(self, now_ns: int, reason: str) -> None:
        """Note that traffic of all connections was lost, so that the outcomes of open messages are unknown."""
        self.lose(now_ns)
        for observer in self._observers.forget():
            for peer in Peer:
                self._keep_after_gap(observer.gap(peer, now_ns, reason))
        self._numbers.clear()

    def finish(self, now_ns: int) -> None:
        """Report open messages at the end of the traffic."""
        for observer in self._observers.by_stream.values():
            self._keep(observer.pending())
        self._keep(self._observers.process_inspector.look(now_ns))
        for sample in self.activity.samples():
            minute = self.minutes.at(int(sample["ts"] * 1e9))
            minute.take_sample(sample)
            minute.seconds = 0.0

    def look(self, now_ns: int) -> Iterator[None]:
        """Report overdue messages; each step checks some connections, so that the caller can yield to other tasks."""
        self._keep_found(now_ns)
        self._begin_minute(now_ns)
        total = 0
        for looked_at, (number, observer) in enumerate(list(self._observers.by_stream.items()), 1):
            if number in self._observers.by_stream:
                self._keep(observer.overdue(now_ns))
                total += observer.memory_used
            if not looked_at % OBSERVERS_A_STEP:
                yield
        if total > OPEN_MEMORY:
            for observer in to_relieve(self._observers.by_stream.values(), OPEN_MEMORY):
                self._keep(observer.gap(CLIENT, now_ns, "too much is open on all connections"))
        self._keep(self._observers.process_inspector.look(now_ns))

    def _trace(self, decoded: Decoded, frames: Sequence[Any], seq: int) -> None:
        if isinstance(decoded, DecodedFrames):
            if decoded.snapshot is not None:
                self.connections.restore(decoded)
            decoded = msgspec.structs.replace(decoded, frames=frames)  # made once for all readers
        reports = self._observers.feed(decoded)
        if isinstance(decoded, DecodedFrames) and decoded.stream in self._observers.by_stream:
            self._numbers.take(decoded.stream, decoded.sender, frames, seq, decoded.ts_ns)
        if self._is_live and isinstance(decoded, SkippedBytes) and decoded.reason == MISSING:
            self._keep_after_gap(reports)
        else:
            self._keep(reports)
        if isinstance(decoded, StreamEnded):
            self._numbers.end(decoded.stream)

    def _listener(self, stream: int, connection: str) -> OnEvents:
        def on_events(events: Sequence[TraceEvent], note: Note) -> None:
            self.activity.count_events(events)
            self.connections.note(stream, events)
            arrived = self.lives.take(stream, events, note)
            self._contents.add(stream, events, self._frame)
            party = self.connections.party(stream, connection)
            for event in events:
                if isinstance(event, ConnectionOpened):
                    self.minutes.see(client_of(party), event.ts_ns)
            self.flows.take(party, events, self._arrivals(events, arrived))
            self.errors.take(stream, party, events, self._frame)
            if self.topology is not None:
                self.topology.take(stream, connection, party, events)

        return on_events

    def _arrivals(self, events: Sequence[TraceEvent], arrived: Sequence[Publish | None]) -> Iterator[Arrival | None]:
        """Yield the latency of each delivery from its publish, where that is known."""
        deliveries = (event for event in events if isinstance(event, MessageDelivered))
        for event, publish in zip(deliveries, arrived, strict=True):
            seen = None if publish is None else self.connections.seen.get(publish.place.stream)
            if publish is None or seen is None:
                yield None
                continue
            publisher = self.connections.party(seen.stream, seen.connection)
            yield Arrival(publisher, publish.exchange, publish.routing_key, (event.ts_ns - publish.ts_ns) / 1e9)

    def _keep(self, reports: Sequence[Report]) -> None:
        """Append records and findings to their rings."""
        for report in reports:
            if isinstance(report, Finding):
                self.kinds[report.kind] += 1
                self.minutes.find(report.kind, report.ts_ns)
                self.newest[report.kind] = report
                counted = report.count // 10  # by the finding before, since the first, tenth, hundredth … are reported
                self.uses.add_finding(report.kind, report.text, report.count - counted)
                self.findings.append(report, self._frame, shown=self._with_rows(report))
            else:
                party = self.connections.party(report.stream, report.connection)
                self.flows.settle(party, report)
                row = self.messages.append(report, self._frame, self._contents.take(report))
                self.errors.take_record(party, report, row.frame)
        self._contents.forget_requests()

    def _keep_after_gap(self, reports: Sequence[Report]) -> None:
        """Keep the reports of one connection after a gap, which has one row for all connections already."""
        self._keep([each for each in reports if not (isinstance(each, MessageRecord) and each.type == "error")])

    def _with_rows(self, finding: Finding) -> bytes:
        """Encode a finding, with the rows of its evidence's frames in `seq` where known; b"" without evidence."""
        if not finding.evidence:
            return b""
        shown = msgspec.to_builtins(finding)
        last = finding.evidence[-1]
        stream = finding.stream if last.stream is None else last.stream
        if self._is_live and not self._numbers.was_read_at(stream, last.sender, last.number, finding.ts_ns):
            return b""  # the proxy counts frames that were missed here
        for each, entry in zip(finding.evidence, shown["evidence"], strict=True):
            stream = finding.stream if each.stream is None else each.stream
            row = self._numbers.row_of(stream, each.sender, each.number)
            if row is not None:
                entry["seq"] = row
        return encoded(shown)


_COMMANDS = frozenset(
    (MessagePublished, MessageDelivered, MessageReturned, RequestAnswered, RequestSent, RequestUnanswered)
)
"""Types of the events that have a command."""


class _Contents:
    """Commands of messages that have no final record, in at most `memory` bytes; the oldest are forgotten."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._open: OrderedDict[Key, Content] = OrderedDict()
        self._size = 0
        self._requests: deque[Content] = deque()
        self._returns: list[Content] = []

    def add(self, stream: int, events: Iterable[TraceEvent], frame: int) -> None:
        """Keep the commands of events whose records will follow."""
        for event in events:
            if type(event) not in _COMMANDS:
                continue
            match event:
                case MessagePublished():
                    self._keep((stream, event.channel, "publish", event.number), Content.of(event, frame))
                case MessageDelivered():
                    kind = "get" if isinstance(event.method, BasicGetOk) else "deliver"
                    self._keep((stream, event.channel, kind, event.method.delivery_tag or 0), Content.of(event, frame))
                case MessageReturned():
                    self._returns.append(Content.of(event, frame))
                case RequestAnswered(reply=BasicGetOk()):
                    pass  # basic.get-ok has a message record, and this request none
                case RequestAnswered() | RequestSent() | RequestUnanswered():
                    self._requests.append(Content.of(event, frame))
                case _:
                    pass

    def take(self, record: MessageRecord) -> Content | None:
        """Return the command of a record; `None` if it has none, or it was forgotten."""
        match record.type:
            case "publish" | "deliver" | "get":
                number = record.number if record.type == "publish" else record.delivery_tag
                key = (record.stream, record.channel or 0, record.type, number or 0)
                if record.outcome == "pending":  # the final record follows
                    return self._open.get(key)
                content = self._open.pop(key, None)
                self._size -= 0 if content is None else _cost(content)
                return content
            case "request":
                return self._requests.popleft() if self._requests else None
            case "return":
                for content in self._returns:
                    method = content.method
                    if isinstance(method, BasicReturn) and method.reply_code == record.code:
                        self._returns.remove(content)
                        return content
        return None

    def forget_requests(self) -> None:
        """Forget requests and returns, after all their records have been taken."""
        if self._requests or self._returns:
            self._requests.clear()
            self._returns.clear()

    def _keep(self, key: Key, content: Content) -> None:
        before = self._open.pop(key, None)
        self._size += _cost(content) - (0 if before is None else _cost(before))
        self._open[key] = content
        while self._size > self._memory:
            self._size -= _cost(self._open.popitem(last=False)[1])


def _cost(content: Content) -> int:
    return CONTENT_COST + len(content.body)
