"""Findings are evaluated once, in the proxy, for all that want them."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from amqproxy.amqp091.methods import BasicAck, BasicDeliver, BasicPublish, ChannelOpen, ChannelOpenOk
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.control import finding_watch as module
from amqproxy.control.finding_watch import FindingEvaluation, FindingReader, FindingSubscription, FindingWatch
from amqproxy.control.packet_subscription import PacketSubscription
from amqproxy.control.record_subscription import RecordSubscription
from amqproxy.control.request import Subscribe
from amqproxy.control.tap_ring import TapRing
from amqproxy.control.work_share import WorkShare
from amqproxy.taps.findings.finding import NO_CONNECTION, Finding, Severity
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.trace.snapshot import ChannelSnapshot, ConnectionSnapshot
from amqproxy.taps.trace_tap import TraceTap
from tests.taps.sessions import Session
from tests.taps.trace.traced import frames_of


class Traffic:
    """Sessions whose traffic a ring keeps."""

    def __init__(self, ring: int = 1 << 20) -> None:
        self.metrics = Metrics()
        self.ring = TapRing(ring, may_close=True)
        self.session = Session()
        self.tag = 0

    def open(self) -> None:
        self.ring.saw_protocol_header(self.session, HEADER)
        self.saw(CLIENT, ChannelOpen())
        self.saw(SERVER, ChannelOpenOk())

    def saw(self, sender: Any, *methods: Any) -> None:
        self.ring.saw_frames(self.session, sender, [frame for each in methods for frame in frames_of(1, each)])

    def deliver(self, count: int = 1) -> None:
        """Deliver messages that the client acknowledges, as healthy clients do."""
        for _ in range(count):
            self.tag += 1
            self.saw(SERVER, BasicDeliver("c", self.tag, False, "e", "k"))
            self.saw(CLIENT, BasicAck(self.tag))


def kinds(events: Any) -> list[str]:
    """The kinds of the findings among events."""
    decoded = [msgspec.json.decode(each) for each in events]
    return [each["record"]["kind"] for each in decoded if each["event"] == "finding"]


def found(evaluation: FindingEvaluation) -> list[str]:
    while evaluation.look():
        pass
    return kinds(evaluation.events())


def observers(evaluation: FindingEvaluation) -> dict[int, Any]:
    tap = evaluation._source.tap
    assert isinstance(tap, TraceTap)
    return tap._observers


def evaluated(traffic: Traffic) -> FindingEvaluation:
    return FindingEvaluation(Subscribe(findings=True), traffic.ring, traffic.metrics, lambda: None)


def test_findings_in_the_ring() -> None:
    traffic = Traffic()
    evaluation = evaluated(traffic)
    traffic.open()
    traffic.deliver()
    traffic.saw(CLIENT, BasicAck(9))
    assert found(evaluation) == ["unknown-ack"]
    traffic.ring.saw_end(traffic.session, "over")
    found(evaluation)
    assert not observers(evaluation)


def test_what_the_evaluation_missed_makes_no_finding() -> None:
    traffic = Traffic(ring=8_000)
    evaluation = evaluated(traffic)
    traffic.open()
    assert found(evaluation) == []
    for _ in range(20):
        traffic.deliver(20)
        assert found(evaluation) == []
    traffic.saw(CLIENT, BasicAck(9_999))
    assert found(evaluation) == []  # the delivery may have been missed


def test_a_snapshot_makes_a_missed_session_known_again() -> None:
    traffic = Traffic(ring=8_000)
    evaluation = evaluated(traffic)
    traffic.open()
    traffic.deliver(50)
    assert found(evaluation) == []
    traffic.deliver()  # the ring opens again
    assert found(evaluation) == []
    channel = ChannelSnapshot(number=1, mode="normal", delivered=51)
    snapshot = ConnectionSnapshot(ts_ns=time.time_ns(), protocol="0-9-1", channels=(channel,))
    traffic.ring.saw_snapshot(traffic.session, snapshot)
    traffic.deliver()
    traffic.saw(CLIENT, BasicAck(99))
    assert found(evaluation) == ["unknown-ack"]


def test_a_session_whose_end_was_overwritten_is_forgotten() -> None:
    traffic = Traffic(ring=8_000)
    evaluation = evaluated(traffic)
    traffic.open()
    found(evaluation)
    assert observers(evaluation)
    traffic.ring.saw_end(traffic.session, "over")
    other = Session(2)
    for _ in range(40):
        traffic.ring.saw_frames(other, CLIENT, frames_of(1, BasicPublish()))
    found(evaluation)
    assert traffic.session.number not in observers(evaluation)


def test_a_reader_keeps_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FINDINGS", 2)
    woken: list[int] = []
    reader = FindingReader(lambda: woken.append(1))
    for event in (b"a", b"b", b"c"):
        reader.add(event)
    assert list(reader.take()) == [b'{"event":"findings-lost","count":1}', b"b", b"c"]
    assert len(woken) == 3
    assert list(reader.take()) == []


def test_missed_ends_of_sessions_that_were_never_traced_are_not_kept() -> None:
    traffic = Traffic(ring=8_000)
    evaluation = evaluated(traffic)
    for number in range(100):
        traffic.ring.saw_end(Session(number), "over")
    assert not evaluation._ends


def test_a_reader_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FINDINGS_BYTES", 100)
    reader = FindingReader(lambda: None)
    for event in (b"a" * 60, b"b" * 50, b"c" * 50):
        reader.add(event)
    assert list(reader.take()) == [b'{"event":"findings-lost","count":1}', b"b" * 50, b"c" * 50]
    reader.add(b"d" * 101)
    assert list(reader.take()) == [b'{"event":"findings-lost","count":1}']


def test_findings_are_shown_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FINDINGS_A_LOOK", 2)
    woken: list[int] = []
    reader = FindingReader(lambda: woken.append(1))
    for event in (b"a", b"b", b"c"):
        reader.add(event)
    woken.clear()
    assert list(reader.take()) == [b"a", b"b"]
    assert woken == [1]
    assert list(reader.take()) == [b"c"]
    assert woken == [1]


def test_evaluated_findings_are_passed_on_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FINDINGS_A_LOOK", 2)
    traffic = Traffic()
    evaluation = evaluated(traffic)
    for number in range(1, 4):
        traffic.session = Session(number)
        traffic.open()
        traffic.saw(CLIENT, BasicAck(9))
    while evaluation.look():
        pass
    assert [len(kinds(evaluation.events())) for _ in range(3)] == [2, 1, 0]


def test_a_subscription_to_findings_alone_does_not_read_the_ring() -> None:
    traffic = Traffic()
    subscription = FindingSubscription(Subscribe(findings=True), lambda: None, FindingReader(lambda: None))
    traffic.open()
    assert not traffic.ring._cursors
    assert subscription.behind == 0.0
    subscription.close()


async def test_readers_with_gaps_of_their_own_show_what_the_proxy_found(autojump_clock: object) -> None:
    traffic = Traffic(ring=20_000)
    watch = FindingWatch(traffic.ring, traffic.metrics, WorkShare())
    asked = Subscribe(packets=True, findings=True)
    readers = [watch.join(asked, lambda: None) for _ in range(3)]
    packets = PacketSubscription(asked, traffic.ring, traffic.metrics, lambda: None, readers[0])
    records = RecordSubscription(
        Subscribe(messages=True, findings=True), traffic.ring, traffic.metrics, lambda: None, readers[1]
    )
    only = FindingSubscription(Subscribe(findings=True), lambda: None, readers[2])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        traffic.open()
        for _ in range(30):
            traffic.deliver(5)
            await trio.testing.wait_all_tasks_blocked()
            await trio.sleep(0.1)  # the evaluation keeps up; the subscriptions read nothing, and miss most
        traffic.saw(CLIENT, BasicAck(9_999))
        await trio.sleep(0.1)
        nursery.cancel_scope.cancel()
    shown = []
    for subscription in (packets, records, only):
        events: list[bytes] = []
        for _ in range(1_000):
            is_more = subscription.look()
            events += subscription.events()
            if not is_more:
                break
        shown.append((kinds(events), any(b'"lost"' in each for each in events)))
    assert shown == [(["unknown-ack"], True), (["unknown-ack"], True), (["unknown-ack"], False)]
    late = watch.join(Subscribe(findings=True, since="start"), lambda: None)
    assert kinds(late.take()) == ["unknown-ack"]
    for reader in (*readers, late):
        watch.leave(reader)
    assert watch._evaluation is None


async def test_readers_are_told_how_many_findings_were_dropped_before(monkeypatch: pytest.MonkeyPatch) -> None:
    traffic = Traffic()
    watch = FindingWatch(traffic.ring, Metrics(), WorkShare())
    readers = [watch.join(Subscribe(findings=True), lambda: None) for _ in range(2)]
    evaluation = watch._evaluation
    assert evaluation is not None
    evaluation._queue.drop(3)
    watch._pass_on(evaluation)
    watch._pass_on(evaluation)
    for reader in readers:
        assert list(reader.take()) == [b'{"event":"findings-lost","count":3}']
        assert list(reader.take()) == []
        watch.leave(reader)


def test_findings_about_the_proxy_are_kept_for_readers_that_come_later() -> None:
    traffic = Traffic()
    watch = FindingWatch(traffic.ring, traffic.metrics, WorkShare())
    woken: list[int] = []
    early = watch.join(Subscribe(findings=True), lambda: woken.append(1))
    woken.clear()
    watch.add(of_proxy("the first"))
    assert (kinds(early.take()), woken) == (["upstream-flapping"], [1])
    watch.leave(early)
    watch.add(of_proxy("the second"))
    assert list(watch.join(Subscribe(findings=True), lambda: None).take()) == []
    late = watch.join(Subscribe(findings=True, since="start"), lambda: None)
    texts = [msgspec.json.decode(each)["record"]["text"] for each in late.take()]
    assert texts == ["the first", "the second"]


def of_proxy(text: str) -> list[Finding]:
    return [
        Finding(
            ts_ns=1,
            stream=NO_CONNECTION,
            connection="a:5672",
            kind="upstream-flapping",
            severity=Severity.WARNING,
            text=text,
            why="",
            remedy="",
        )
    ]
