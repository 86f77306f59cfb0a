"""Messages by who and where, and findings by kind."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from amqproxy.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.process.supervision import contained
from amqproxy.taps.object_tap import MAX_CONSUMERS, ObjectMetrics, ObjectTap
from tests.taps.sessions import Session
from tests.taps.trace.traced import frames_of


class Tapped:
    """A session of alice on the virtual host "shop" with one channel, that an `ObjectTap` is shown."""

    def __init__(self, *by: str, findings: bool = False, max_series: int = 10, memory: int = 1 << 20) -> None:
        self.registry = CollectorRegistry()
        metrics = ObjectMetrics(by, max_series=max_series, findings=findings, registry=self.registry)
        self.tap = ObjectTap(metrics, contained, memory=memory)
        self.connect(1)

    def connect(self, number: int) -> None:
        """Another session, which is fed from here on."""
        self.session = Session(number)
        self.tap.saw_protocol_header(self.session, b"AMQP\0\0\x09\x01")
        self.feed(SERVER, ConnectionStart(), channel=0)
        self.feed(CLIENT, ConnectionStartOk(mechanism="PLAIN", response=b"\0alice\0secret"), channel=0)
        self.feed(SERVER, ConnectionTune(), channel=0)
        self.feed(CLIENT, ConnectionTuneOk(), ConnectionOpen("shop"), channel=0)
        self.feed(SERVER, ConnectionOpenOk(), channel=0)
        self.feed(CLIENT, ChannelOpen())
        self.feed(SERVER, ChannelOpenOk())

    def feed(self, sender: Peer, *methods: Method, channel: int = 1, body: bytes = b"x") -> None:
        for method in methods:
            self.tap.saw_frames(self.session, sender, frames_of(channel, method, body=body))

    def found(self, name: str = "amqproxy_messages_by_total") -> dict[tuple[str, ...], float]:
        return {
            tuple(sample.labels.values()): sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == name
        }


def run(tapped: Tapped) -> None:
    tapped.feed(CLIENT, ConfirmSelect())
    tapped.feed(SERVER, ConfirmSelectOk())
    tapped.feed(CLIENT, BasicPublish(exchange="orders"), BasicPublish(exchange="audit"))
    tapped.feed(SERVER, BasicAck(1), BasicNack(2))
    tapped.feed(CLIENT, BasicConsume(queue="invoices", consumer_tag="c"))
    tapped.feed(SERVER, BasicConsumeOk("c"))
    tapped.feed(SERVER, BasicDeliver("c", 1, exchange="orders"), BasicDeliver("c", 2, True, "orders"))
    tapped.feed(CLIENT, BasicAck(1), BasicNack(2, requeue=True))


def test_by_user_and_vhost() -> None:
    tapped = Tapped("user", "vhost")
    run(tapped)
    assert tapped.found() == {
        (event, "alice", "shop"): value
        for event, value in {
            "published": 2, "confirmed": 1, "nacked": 1, "delivered": 2, "redelivered": 1, "acked": 1, "requeued": 1
        }.items()
    }  # fmt: skip


def test_by_exchange_and_queue() -> None:
    tapped = Tapped("exchange", "queue")
    run(tapped)
    assert tapped.found() == {
        ("published", "orders", ""): 1,
        ("published", "audit", ""): 1,
        ("confirmed", "", ""): 1,
        ("nacked", "", ""): 1,
        ("delivered", "orders", "invoices"): 2,
        ("redelivered", "orders", "invoices"): 1,
        ("acked", "", "invoices"): 1,
        ("requeued", "", "invoices"): 1,
    }


def test_the_number_of_series_is_bounded() -> None:
    tapped = Tapped("exchange", max_series=3)
    for number in range(10):
        tapped.feed(CLIENT, BasicPublish(exchange=f"e{number}"))
    assert tapped.found() == {**{("published", f"e{n}"): 1 for n in range(3)}, ("published", "other"): 7}
    assert tapped.found("amqproxy_series_refused_total") == {(): 7}


def test_findings_by_kind() -> None:
    tapped = Tapped(findings=True)
    tapped.feed(CLIENT, BasicAck(7))
    found = tapped.found("amqproxy_findings_total")
    assert found["unknown-ack", "error"] == 1
    assert "amqproxy_messages_by_total" not in {family.name for family in tapped.registry.collect()}


def test_all_that_were_found_are_counted() -> None:
    """Also those that are not reported each."""
    tapped = Tapped(findings=True)
    for count in range(1, 101):
        tapped.feed(CLIENT, BasicAck(7))
        if count in (1, 10, 100):
            assert tapped.found("amqproxy_findings_total")["unknown-ack", "error"] == count


def test_findings_across_sessions() -> None:
    tapped = Tapped(findings=True)
    for number in range(2, 12):
        tapped.connect(number)
        tapped.feed(CLIENT, BasicPublish())
        tapped.tap.saw_end(tapped.session, "over")
    assert tapped.found("amqproxy_findings_total")["connection-per-message", "warning"] == 1


def test_a_session_that_cannot_be_counted_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    tapped = Tapped("user")
    observed = tapped.tap._sessions[1]
    assert observed is not None

    def fail(*arguments: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(observed, "count", fail)
    with capture_logs() as logs:
        run(tapped)
    assert [each["event"] for each in logs if each["log_level"] == "error"] == ["session not counted"]
    tapped.tap.saw_end(tapped.session, "over")
    assert not tapped.tap._sessions


def test_traces_that_take_too_much_forget_what_is_open() -> None:
    tapped = Tapped("user", memory=0)
    run(tapped)
    tapped.feed(CLIENT, BasicPublish(exchange="orders"))
    assert len(list(tapped.tap.relieve())) == 1
    tapped.feed(SERVER, BasicAck(3))
    assert tapped.found()["confirmed", "alice"] == 1  # what it was for is not known any more


def test_of_many_consumers_the_queues_of_the_newest_are_known() -> None:
    """A client that consumes anew for each of its tasks, with another tag, is counted for as long as it runs."""
    tapped = Tapped("queue")
    for number in range(1, MAX_CONSUMERS + 3):
        tag = f"c{number}"
        tapped.feed(CLIENT, BasicConsume(queue="old" if number <= MAX_CONSUMERS else "new", consumer_tag=tag))
        tapped.feed(SERVER, BasicConsumeOk(tag), BasicDeliver(tag, number))
        tapped.feed(CLIENT, BasicAck(number), BasicCancel(tag))
        tapped.feed(SERVER, BasicCancelOk(tag))
    assert tapped.found()["acked", "new"] == 2
    assert ("acked", "") not in tapped.found()


def test_a_trace_that_cannot_forget_costs_its_session_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    tapped = Tapped("user", memory=0)
    run(tapped)
    observed = tapped.tap._sessions[1]
    assert observed is not None

    def fail(*arguments: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(observed, "count", fail)
    with capture_logs() as logs:
        list(tapped.tap.relieve())
    assert [each["event"] for each in logs if each["log_level"] == "error"] == ["session not counted"]
    assert tapped.tap._sessions == {1: None}
