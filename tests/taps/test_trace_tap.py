"""Records of messages, from what sessions relay."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from amqproxy.amqp010.commands import ExecutionException
from amqproxy.amqp010.controls import ConnectionClose as Amqp010ConnectionClose
from amqproxy.amqp010.controls import SessionAttach, SessionAttached, SessionCommandPoint, SessionCompleted
from amqproxy.amqp010.protocol_header import HEADER as AMQP010_HEADER
from amqproxy.amqp091.errors import FrameError
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicNack,
    BasicPublish,
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    Method,
    QueueDeclare,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.taps.amqp010.chunk import Amqp010Chunk
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.message_recorder import SelectorOf
from amqproxy.taps.message_text import message_line
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.note import Note
from amqproxy.taps.observer import ObserverSettings
from amqproxy.taps.record_queue import RecordQueue
from amqproxy.taps.trace_tap import OBSERVERS_A_STEP, TraceTap
from tests.taps.sessions import Session
from tests.taps.trace.amqp010.traced import START, ids, published
from tests.taps.trace.amqp010.traced import frames_of as amqp010_frames
from tests.taps.trace.traced import frames_of


class Tapped:
    """A session under a tap, with channel 1 open."""

    def __init__(self, backlog: int = 100, selector_of: SelectorOf | None = None, **settings: Any) -> None:
        self.woken = 0
        self.queue = RecordQueue(backlog, 1 << 20, Metrics(), self._wake)
        self.tap = TraceTap(self.queue, ObserverSettings(**settings), memory=1 << 20, selector_of=selector_of)
        self.session = Session()
        self.tap.saw_protocol_header(self.session, HEADER)
        self.saw(CLIENT, ChannelOpen())
        self.saw(SERVER, ChannelOpenOk())
        self.queue.take_records()

    def _wake(self) -> None:
        self.woken += 1

    def saw(self, sender: Peer, *methods: Method, leg: str = "", **content: Any) -> None:
        frames = [frame for method in methods for frame in frames_of(1, method, **content)]
        self.tap.saw_frames(self.session, sender, frames, Note(leg=leg, rules=("r",) if leg else ()))

    def outcomes(self) -> list[tuple[str, str]]:
        records = self.queue.take_records()
        assert all(isinstance(each, MessageRecord) and each.stream == 7 for each in records)
        return [(each.type, each.outcome) for each in records if isinstance(each, MessageRecord)]


def exhaust(steps: Iterator[None]) -> None:
    deque(steps, maxlen=0)


class PublishSelector:
    def __init__(self) -> None:
        self.asked: list[tuple[str, int, bytes]] = []

    def learn(self, sender: Peer, frame: Frame) -> None:
        pass

    def selects(
        self, sender: Peer, channel: int, method: Method, properties: Properties, size: int, body: bytes, **more: Any
    ) -> bool:
        self.asked.append((method.name, size, body))
        return method.name == "basic.publish"


def test_a_message_and_the_end_of_its_session() -> None:
    tapped = Tapped(body=2)
    tapped.saw(CLIENT, BasicPublish(exchange="e"), body=b"hello")
    assert tapped.woken == 2
    (record,) = tapped.queue.take_records()
    assert isinstance(record, MessageRecord)
    assert (record.connection, record.body, record.outcome) == ("c:1-p:2", "he", "sent")
    tapped.saw(CLIENT, ConfirmSelect(), BasicPublish())
    tapped.tap.saw_end(tapped.session, "drained")
    assert tapped.outcomes() == [("request", "unanswered"), ("publish", "open"), ("connection", "closed")]


def test_what_rules_changed_is_as_the_client_sent_it() -> None:
    tapped = Tapped()
    tapped.saw(CLIENT, BasicPublish(exchange="before"), leg="client")
    tapped.saw(CLIENT, BasicPublish(exchange="after"), leg="upstream")
    (record,) = tapped.queue.take_records()
    assert isinstance(record, MessageRecord)
    assert (record.exchange, record.rules) == ("before", ("r",))


def test_a_refused_publish_of_which_the_rest_is_not_shown() -> None:
    tapped = Tapped()
    tapped.saw(CLIENT, ConfirmSelect(no_wait=True))
    tapped.queue.take_records()
    refused = Note(leg="client", rules=("r",), verdict="refused")
    for tag in (1, 2):
        frames = frames_of(1, BasicPublish(), body=b"hello")[:tag]
        tapped.tap.saw_frames(tapped.session, CLIENT, frames, refused)
        tapped.tap.saw_frames(tapped.session, SERVER, frames_of(1, BasicNack(delivery_tag=tag)), refused)
    tapped.saw(CLIENT, BasicPublish(), body=b"hello")
    assert [each.confirm_tag for each in tapped.tap.pending()] == [3]
    tapped.saw(SERVER, BasicAck(delivery_tag=3))
    records = [each for each in tapped.queue.take_records() if isinstance(each, MessageRecord)]
    assert [(each.outcome, each.size) for each in records] == [("nacked", None), ("nacked", 5), ("confirmed", 5)]
    assert "bytes" not in message_line(records[0])


def test_a_channel_that_a_rule_closes_ends_there() -> None:
    tapped = Tapped()
    tapped.saw(CLIENT, ConfirmSelect(no_wait=True), BasicPublish())
    tapped.queue.take_records()
    tapped.saw(CLIENT, QueueDeclare(queue="q"), leg="client")
    tapped.saw(SERVER, ChannelClose(403, "no", 50, 10), leg="client")
    assert tapped.outcomes() == [("channel", "closed"), ("request", "unanswered"), ("publish", "open")]
    tapped.saw(CLIENT, ChannelOpen())
    tapped.saw(SERVER, ChannelOpenOk())
    tapped.saw(CLIENT, QueueDeclare(queue="q", no_wait=True))
    assert tapped.outcomes() == [("channel", "opened"), ("request", "sent")]


@pytest.mark.parametrize(("leg", "closer"), [("client", "proxy"), ("", "server")])
@pytest.mark.parametrize("close", [ChannelClose(541, "no", 50, 10), ConnectionClose(541, "no", 0, 0)])
def test_who_has_closed(close: Method, leg: str, closer: str) -> None:
    tapped = Tapped(findings=True)
    if isinstance(close, ChannelClose):
        tapped.saw(SERVER, close, leg=leg)
    else:
        tapped.tap.saw_frames(tapped.session, SERVER, frames_of(0, close), Note(leg=leg))
    found = tapped.queue.take_records()
    (record,) = [each for each in found if isinstance(each, MessageRecord)]
    assert (record.sender, record.outcome, record.code) == (closer, "closed", 541)
    assert f"closed by {closer}: 541 no" in message_line(record)
    (finding,) = [each for each in found if isinstance(each, Finding)]
    assert finding.text.endswith(", by the proxy") == (closer == "proxy")


def test_open_messages_are_pending() -> None:
    tapped = Tapped()
    tapped.saw(CLIENT, ConfirmSelect(no_wait=True), BasicPublish(), BasicPublish())
    tapped.queue.take_records()
    assert [(each.confirm_tag, each.outcome) for each in tapped.tap.pending()] == [(1, "pending"), (2, "pending")]
    assert tapped.outcomes() == []
    tapped.saw(SERVER, BasicAck(delivery_tag=2))
    assert [each.confirm_tag for each in tapped.tap.pending()] == [1]
    assert tapped.outcomes() == [("publish", "confirmed")]


def test_where_only_findings_are_reported_no_message_is_pending() -> None:
    tapped = Tapped(messages=False, findings=True)
    tapped.saw(CLIENT, ConfirmSelect(no_wait=True), BasicPublish())
    assert tapped.tap.pending() == []


def test_a_violation() -> None:
    tapped = Tapped()
    tapped.tap.saw_violation(tapped.session, CLIENT, FrameError("too large"))
    assert tapped.outcomes() == [("error", "unknown")]


def test_records_for_which_there_is_no_room_are_counted() -> None:
    tapped = Tapped(backlog=2)
    tapped.saw(CLIENT, *[BasicPublish()] * 5)
    assert (len(tapped.queue.take_records()), tapped.queue.take_dropped()) == (2, 3)


def test_a_broker_that_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tapped = Tapped(messages=False, findings=True)
    now = 0
    monkeypatch.setattr("time.time_ns", lambda: now * 1_000_000_000)
    tapped.saw(CLIENT, BasicPublish())
    tapped.queue.take_records()
    found = []
    for now in range(1, 40):
        tapped.session.stalled_ns = now * 1_000_000_000
        exhaust(tapped.tap.report_overdue())
        found += [(now, each.kind) for each in tapped.queue.take_records() if isinstance(each, Finding)]
    assert found == [(30, "stalled-confirms")]


def test_what_is_open_for_long_is_reported(monkeypatch: Any) -> None:
    tapped = Tapped()
    monkeypatch.setattr("time.time_ns", lambda: 0)
    tapped.saw(CLIENT, ConfirmSelect(), BasicPublish())
    exhaust(tapped.tap.report_overdue())
    assert tapped.outcomes() == []
    monkeypatch.setattr("time.time_ns", lambda: 10_000_000_000)
    exhaust(tapped.tap.report_overdue())
    assert tapped.outcomes() == [("publish", "pending")]


def test_very_many_connections_are_looked_at_in_steps(monkeypatch: Any) -> None:
    tapped = Tapped(backlog=10_000)
    monkeypatch.setattr("time.time_ns", lambda: 0)
    sessions = [Session(number) for number in range(3 * OBSERVERS_A_STEP)]
    for session in sessions:
        tapped.tap.saw_protocol_header(session, HEADER)
        for method in (ChannelOpen(), ConfirmSelect(), BasicPublish()):
            tapped.tap.saw_frames(session, CLIENT, frames_of(1, method))
    tapped.queue.take_records()
    monkeypatch.setattr("time.time_ns", lambda: 10_000_000_000)
    steps = tapped.tap.report_overdue()
    next(steps)
    first = [(each.stream, each.outcome) for each in tapped.queue.take_records() if isinstance(each, MessageRecord)]
    assert 0 < len(first) <= OBSERVERS_A_STEP
    assert {outcome for _, outcome in first} == {"pending"}
    tapped.tap.saw_end(sessions[-1], "gone")
    tapped.tap.saw_protocol_header(Session(10_000), HEADER)
    tapped.queue.take_records()
    exhaust(steps)
    rest = [each.stream for each in tapped.queue.take_records() if isinstance(each, MessageRecord)]
    assert sorted([number for number, _ in first] + rest) == list(range(3 * OBSERVERS_A_STEP - 1))


def test_a_selection_sees_as_much_of_a_body_as_it_asks_for() -> None:
    selector = PublishSelector()

    tapped = Tapped(kept_body=3, selector_of=lambda number, name: selector)
    tapped.saw(CLIENT, BasicPublish(), QueueDeclare(no_wait=True), body=b"hello")
    (record,) = tapped.queue.take_records()
    assert isinstance(record, MessageRecord)
    assert record.body is None
    assert selector.asked == [("basic.publish", 5, b"hel"), ("queue.declare", 0, b"")]


def test_the_traces_of_all_connections_are_bounded_together() -> None:
    tapped = Tapped()
    for number in range(40):
        session = Session(number)
        tapped.tap.saw_protocol_header(session, HEADER)
        tapped.tap.saw_frames(session, CLIENT, frames_of(1, ChannelOpen()))
        for _ in range(100):
            if number < 20:  # the others are quiet
                tapped.tap.saw_frames(session, CLIENT, frames_of(1, QueueDeclare(queue="q" * 255)))
    tapped.queue.take_records()
    before = sum(each.memory_used for each in tapped.tap._observers.values())
    tapped.tap._memory = before // 2
    exhaust(tapped.tap.report_overdue())
    assert before // 4 < sum(each.memory_used for each in tapped.tap._observers.values()) <= before // 2
    reasons = [each.reason for each in tapped.queue.take_records() if isinstance(each, MessageRecord)]
    assert 9 <= reasons.count("too much is open on all connections") <= 11


def test_findings_across_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that only the time shows."""
    now_ns = 10**18
    monkeypatch.setattr(time, "time_ns", lambda: now_ns)
    queue = RecordQueue(100, 1 << 20, Metrics(), lambda: None)
    tap = TraceTap(queue, ObserverSettings(messages=False, findings=True), memory=1 << 20)
    sessions = [Session(), Session()]
    for number, session in enumerate(sessions, 1):
        session.number = number
        tap.saw_protocol_header(session, HEADER)
        for sender, method in ((CLIENT, ConnectionOpen("/")), (SERVER, ConnectionOpenOk())):
            tap.saw_frames(session, sender, frames_of(0, method))
        for sender, method in ((CLIENT, ChannelOpen()), (SERVER, ChannelOpenOk())):
            tap.saw_frames(session, sender, frames_of(1, method))
    tap.saw_frames(sessions[0], CLIENT, frames_of(1, QueueDeclare(queue="q", durable=True, no_wait=True)))
    tap.saw_frames(sessions[1], CLIENT, frames_of(1, BasicPublish(routing_key="q")))
    exhaust(tap.report_overdue())
    assert not queue.waiting_records()
    now_ns += 61 * 10**9
    exhaust(tap.report_overdue())
    (finding,) = queue.take_records()
    assert isinstance(finding, Finding)
    assert (finding.kind, finding.stream) == ("unconsumed-queue", 1)


@pytest.mark.parametrize(("leg", "closer"), [("client", "proxy"), ("", "server")])
def test_who_has_closed_of_0_10(leg: str, closer: str) -> None:
    queue = RecordQueue(100, 1 << 20, Metrics(), lambda: None)
    tap = TraceTap(queue, ObserverSettings(), memory=1 << 20)
    session = Session()
    tap.saw_protocol_header(session, AMQP010_HEADER)
    exception = ExecutionException(error_code=403, description="no")
    close = Amqp010ConnectionClose(reply_code=320, reply_text="drained")
    for sender, channel, method, seen in (
        (CLIENT, 1, SessionAttach(name_=b"s"), ""),
        (SERVER, 1, SessionAttached(name_=b"s"), ""),
        (SERVER, 1, exception, leg),
        (SERVER, 0, close, leg),
    ):
        raw = b"".join(frame.raw for frame in amqp010_frames(channel, method))
        tap.saw_frames(session, sender, Amqp010Chunk(raw, 0, [None] * raw_count(raw)), Note(leg=seen))
    closed = [each for each in queue.take_records() if isinstance(each, MessageRecord) and each.outcome == "closed"]
    assert [(each.type, each.sender) for each in closed] == [("channel", closer), ("connection", closer)]


def test_what_passes_of_0_10_is_reported_alike() -> None:
    queue = RecordQueue(100, 1 << 20, Metrics(), lambda: None)
    tap = TraceTap(queue, ObserverSettings(), memory=1 << 20)
    session = Session()
    tap.saw_protocol_header(session, AMQP010_HEADER)
    tap.saw_protocol_header(session, AMQP010_HEADER, SERVER)

    def saw(sender: Peer, channel: int, method: Any, **content: Any) -> None:
        raw = b"".join(frame.raw for frame in amqp010_frames(channel, method, **content))
        tap.saw_frames(session, sender, Amqp010Chunk(raw, 0, [None] * raw_count(raw)))

    for sender, control in START:
        saw(sender, 0, control)
    saw(CLIENT, 1, SessionAttach(name_=b"s"))
    saw(SERVER, 1, SessionAttached(name_=b"s"))
    saw(CLIENT, 1, SessionCommandPoint(command_id=0, command_offset=0))
    transfer, header = published()
    saw(CLIENT, 1, transfer, header=header, body=b"hello")
    saw(SERVER, 1, SessionCompleted(commands=ids(0)))
    tap.saw_end(session, "over")
    found = [each for each in queue.take_records() if isinstance(each, MessageRecord)]
    assert [(each.type, each.outcome, each.channel) for each in found] == [
        ("connection", "opened", None),
        ("channel", "opened", 1),
        ("publish", "confirmed", 1),
        ("connection", "closed", None),
    ]


def raw_count(raw: bytes) -> int:
    count = at = 0
    while at < len(raw):
        at += int.from_bytes(raw[at + 2 : at + 4])
        count += 1
    return count
