"""What is counted of the messages of 0-10."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.commands import (
    DtxEnd,
    DtxStart,
    ExecutionResult,
    ExecutionSync,
    MessageAccept,
    MessageCancel,
    MessageReject,
    MessageRelease,
    MessageSubscribe,
    QueueDeclare,
    QueueQuery,
    TxSelect,
)
from amqproxy.amqp010.controls import SessionCommandPoint, SessionCompleted
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.metering.amqp010.meter import MAX_CONSUMERS, MAX_REQUESTS, Amqp010Meter
from amqproxy.taps.metering.message_counts import Count, MessageCounts
from tests.proxy.amqp010_script import ATTACH, DETACH, LOGIN, MESSAGES, ids, method, transfer


class Metered:
    def __init__(self) -> None:
        self.counts = MessageCounts()
        self.meter = Amqp010Meter(self.counts)
        self._readers = {peer: FrameReader() for peer in Peer}
        self.now = 0.0

    def feed(self, sender: Peer, data: bytes) -> None:
        reader = self._readers[sender]
        reader.feed(data.removeprefix(HEADER))
        self.meter.feed(sender is SERVER, reader.taken, self.now)
        self.now += 1.0

    def play(self, *steps: tuple[Peer, bytes]) -> Metered:
        for sender, data in steps:
            self.feed(sender, data)
        return self

    @property
    def values(self) -> dict[str, int]:
        return {each.name: self.counts.values[each] for each in Count if self.counts.values[each]}


def test_what_becomes_of_messages() -> None:
    metered = Metered().play(*LOGIN, *ATTACH, *MESSAGES)
    assert metered.values == {
        "PUBLISHED": 3,
        "CONFIRMED": 2,
        "NACKED": 1,
        "RETURNED": 1,
        "DELIVERED": 4,
        "AUTO_ACKED": 1,
        "ACKED": 1,
        "REQUEUED": 1,
        "REJECTED": 1,
        "CONSUMERS": 1,
    }
    assert metered.counts.published_bytes.total == 10_002
    assert metered.counts.delivered_bytes.total == 1 + 2 + 3 + 1
    assert metered.counts.confirm_seconds.total == 3.0
    assert sum(metered.counts.ack_seconds.counts) == 3
    assert set(metered.counts.requests) == {"connection.open", "session.attach", "queue.declare"}
    assert metered.counts.requests["queue.declare"].total == 1.0
    metered.play(*DETACH)
    assert "CONSUMERS" not in metered.values


def test_what_is_open_is_shown_and_forgotten_with_its_session() -> None:
    metered = Metered().play(*LOGIN, *ATTACH, MESSAGES[0], MESSAGES[4])
    session = metered.meter.session(1)
    assert session is not None
    assert (session.unconfirmed, session.unacked) == (3, 3)
    assert metered.values["UNCONFIRMED"] == metered.values["UNACKED"] == 3
    metered.play(*ATTACH)
    assert "UNCONFIRMED" not in metered.values
    metered.play(MESSAGES[0])
    metered.meter.close()
    assert {"UNCONFIRMED", "UNACKED", "CONSUMERS"}.isdisjoint(metered.values)
    assert metered.meter.session(1) is None


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (MessageAccept(ids((0, 0))), {"CONFIRMED": 1}),
        (MessageRelease(ids((0, 0))), {"NACKED": 1}),
        (MessageReject(ids((0, 0)), 0), {"NACKED": 1}),
        (MessageReject(ids((0, 0)), 2), {"NACKED": 1, "RETURNED": 1}),
        (SessionCompleted(ids((0, 5))), {"CONFIRMED": 1}),
        (SessionCompleted(), {"UNCONFIRMED": 1}),
    ],
)
def test_what_the_broker_makes_of_a_publish(answer: MessageAccept, found: dict[str, int]) -> None:
    metered = Metered().play(*ATTACH, (CLIENT, transfer(b"x")), (SERVER, method(answer)))
    assert metered.values == {"PUBLISHED": 1, **found}
    metered.play((SERVER, method(SessionCompleted(ids((0, 0))))))
    assert metered.values.get("CONFIRMED", 0) == ("CONFIRMED" in found or "UNCONFIRMED" in found), "once"


@pytest.mark.parametrize("begin", [TxSelect(), DtxStart()])
def test_in_a_transaction_nothing_is_confirmed(begin: TxSelect) -> None:
    metered = Metered().play(*ATTACH, (CLIENT, method(begin) + transfer(b"x")))
    assert metered.values == {"PUBLISHED": 1}
    metered.play((CLIENT, method(DtxEnd()) + transfer(b"x")))
    assert metered.values == {"PUBLISHED": 2, "UNCONFIRMED": 1}


def test_ids_roll_over() -> None:
    metered = Metered().play(*ATTACH, (CLIENT, method(SessionCommandPoint(0xFFFF_FFFE, 0))))
    metered.play((CLIENT, transfer(b"x") * 4), (SERVER, method(SessionCompleted(ids((0xFFFF_FFFE, 0))))))
    assert metered.values == {"PUBLISHED": 4, "CONFIRMED": 3, "UNCONFIRMED": 1}


def test_results_and_completions_answer_requests() -> None:
    metered = Metered().play(*ATTACH, (CLIENT, method(QueueQuery("q")) + method(ExecutionSync())))
    metered.play((SERVER, method(ExecutionResult(0)) + method(SessionCompleted(ids((0, 1))))))
    assert {name: sum(each.counts) for name, each in metered.counts.requests.items()} == {
        "session.attach": 1,
        "queue.query": 1,
        "execution.sync": 1,
    }


def test_subscriptions() -> None:
    subscribe = method(MessageSubscribe("q", "d", 0, 0))
    metered = Metered().play(*ATTACH, (CLIENT, subscribe + subscribe))
    assert metered.values == {"CONSUMERS": 1}
    metered.play((CLIENT, method(MessageCancel("d")) + method(MessageCancel("d"))))
    assert metered.values == {}


def test_a_session_that_was_attached_before() -> None:
    metered = Metered().play((CLIENT, transfer(b"x")), (SERVER, transfer(b"y")))
    assert metered.values == {"PUBLISHED": 1, "DELIVERED": 1}, "without ids, nothing is known to be open"


def test_what_is_malformed_is_for_the_broker_to_answer() -> None:
    for data in (method(MessageAccept(ids((0, 0)))), method(SessionCompleted(ids((0, 0)))), transfer(b"")[:60]):
        size = int.from_bytes(data[2:4]) - 3
        metered = Metered().play(*ATTACH, (CLIENT, data[:2] + size.to_bytes(2) + data[4:size]))
        assert "ACKED" not in metered.values


def test_frames_that_are_not_whole() -> None:
    meter = Amqp010Meter(MessageCounts())
    for data in (b"no frame", transfer(b"x")[:-1], bytes(12)):
        with pytest.raises(ValueError, match="not whole"):
            meter.feed(False, data, 0.0)
    meter.feed(False, b"", 0.0)


def test_what_is_waited_for_is_bounded_for_the_connection() -> None:
    counts = MessageCounts()
    meter = Amqp010Meter(counts)
    points = b"".join(method(SessionCommandPoint(0, 0), channel) for channel in range(64))
    meter.feed(False, points, 0.0)
    asked = b"".join(
        method(ExecutionSync(), channel) + method(MessageSubscribe("q", f"d{number}", 0, 0), channel)
        for channel in range(64)
        for number in range(70)
    )
    meter.feed(False, asked, 0.0)
    sessions = [session for channel in range(64) if (session := meter.session(channel)) is not None]
    assert sum(session.requests for session in sessions) == MAX_REQUESTS
    assert sum(len(session.consumers) for session in sessions) == counts.values[Count.CONSUMERS] == MAX_CONSUMERS
    meter.feed(True, method(SessionCompleted(ids((0, 1000))), 3), 1.0)
    assert sessions[3].requests == 0
    meter.feed(False, method(ExecutionSync(), 63), 0.0)
    assert sessions[63].requests == 1, "there is room again"
    meter.close()
    assert counts.values[Count.CONSUMERS] == 0


def test_an_observer_is_not_asked_about_what_is_not_waited_for() -> None:
    class Observer:
        asked = 0

        def ask(self, channel: int, command: Method, size: int) -> None:
            self.asked += 1

        def end_session(self, channel: int) -> None:
            pass

    observer = Observer()
    meter = Amqp010Meter(MessageCounts(), observer)
    meter.feed(False, method(SessionCommandPoint(0, 0)) + method(QueueDeclare("q")) * (MAX_REQUESTS + 1), 0.0)
    assert observer.asked == MAX_REQUESTS
    meter.feed(True, method(SessionCompleted(ids((0, 0)))), 1.0)
    meter.feed(False, method(QueueDeclare("q")), 2.0)
    assert observer.asked == MAX_REQUESTS + 1
    meter.close()
