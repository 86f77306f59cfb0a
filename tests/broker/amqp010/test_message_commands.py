"""Subscriptions, credit and outcomes. Section 10.2."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.commands import (
    MessageAccept,
    MessageAcquire,
    MessageCancel,
    MessageFlow,
    MessageFlush,
    MessageRelease,
    MessageSetFlowMode,
    MessageStop,
    MessageSubscribe,
    QueueDeclare,
    QueueDelete,
    QueueQuery,
)
from amqproxy.amqp010.methods import Command
from amqproxy.amqp010.properties import DeliveryProperties, MessageProperties
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Map
from amqproxy.broker.broker import Broker
from tests.broker.amqp010.client import INFINITE, Client010, Session010


@pytest.fixture
def session() -> Session010:
    session = Client010(Broker()).open().session()
    session.declare("q")
    return session


def publish(session: Session010, count: int) -> None:
    for number in range(count):
        session.transfer(b"%d" % number)


def test_credit_counts_messages(session: Session010) -> None:
    publish(session, 5)
    session.subscribe("q", "d", messages=2)
    assert session.got() == [b"0", b"1"]
    session.call(MessageFlow("d", 0, 1))
    assert session.got() == [b"2"]
    session.call(MessageFlow("d", 0, INFINITE))
    assert session.got() == [b"3", b"4"]


def test_credit_counts_bytes_of_header_and_body(session: Session010) -> None:
    publish(session, 2)
    session.transfer(bytes(1000))
    session.subscribe("q", "d", size=10_000)
    assert len(session.got()) == 3
    session.call(MessageStop("d"))
    session.transfer(bytes(1000))
    session.call(MessageFlow("d", 0, INFINITE))
    session.call(MessageFlow("d", 1, 500))
    assert session.got() == []
    assert session.call(QueueQuery("q")).message_count == 1
    session.call(MessageFlow("d", 1, 1000))
    ((_, transfer),) = session.take().messages
    assert not transfer.delivery_properties.redelivered


def test_without_acceptance_what_is_too_large_for_the_credit_stays_too(session: Session010) -> None:
    session.transfer(bytes(1000))
    session.subscribe("q", "d", accept_mode=1, size=500)
    assert session.got() == []
    queue = session.client.broker.vhosts["/"].queues["q"]
    assert (queue.message_count, queue.unacked) == (1, 0)
    session.call(MessageFlow("d", 1, 1000))
    assert len(session.got()) == 1
    assert (queue.message_count, queue.unacked) == (0, 0)


def test_a_window_moves_with_completion(session: Session010) -> None:
    publish(session, 4)
    session.subscribe("q", "d", messages=2)
    (first, _), (second, _) = session.messages
    session.messages = []
    session.complete(first, second)
    assert session.got() == [b"2", b"3"]


def test_credit_does_not(session: Session010) -> None:
    publish(session, 4)
    session.call(MessageSubscribe("q", "d", 0, 0))
    session.call(MessageSetFlowMode("d", 0))
    session.send(MessageFlow("d", 1, INFINITE))
    session.send(MessageFlow("d", 0, 2))
    session.take()
    session.complete(*[position for position, _ in session.messages])
    assert session.got() == [b"0", b"1"]


def test_stop_ends_the_window(session: Session010) -> None:
    publish(session, 4)
    session.subscribe("q", "d", messages=2)
    positions = [position for position, _ in session.messages]
    session.messages = []
    session.call(MessageStop("d"))
    session.call(MessageFlow("d", 1, INFINITE))
    session.call(MessageFlow("d", 0, 1))
    session.complete(*positions)
    assert session.got() == [b"2"]


def test_flush_uses_up_the_credit(session: Session010) -> None:
    publish(session, 1)
    session.subscribe("q", "d", messages=5)
    session.call(MessageFlush("d"))
    publish(session, 1)
    assert session.got() == [b"0"]
    assert session.call(QueueQuery("q")).message_count == 1


def test_release_keeps_the_mark_unless_it_is_to_be_set(session: Session010) -> None:
    publish(session, 1)
    session.subscribe("q", "d", messages=1)
    for is_set in (False, True):
        ((position, _),) = session.messages
        session.messages = []
        session.call(MessageRelease(SequenceSet.of([position]), is_set))
        session.send(MessageFlow("d", 0, 1))
        session.take()
        assert session.messages[0][1].delivery_properties.redelivered is is_set


def test_what_was_sent_before_a_cancel_can_still_be_accepted(session: Session010) -> None:
    publish(session, 1)
    session.subscribe("q", "d")
    ((position, _),) = session.messages
    session.call(MessageCancel("d"))
    session.call(MessageAccept(SequenceSet.of([position, 77])))
    assert session.client.broker.vhosts["/"].queues["q"].unacked == 0


def test_many_are_settled_in_steps() -> None:
    client = Client010(Broker()).open()
    session = client.session()
    session.declare("q")
    publish(session, 300)
    session.subscribe("q", "d")
    positions = [position for position, _ in session.messages]
    client.broker.work.quantum.limit(step=16)
    session.call(MessageRelease(SequenceSet.of(positions), True))
    again = [position for position, _ in session.messages][300:]
    assert len(again) == 300
    session.call(MessageAccept(SequenceSet.of(again)))
    queue = client.broker.vhosts["/"].queues["q"]
    assert (queue.message_count, queue.unacked) == (0, 0)


@pytest.mark.parametrize(("priority", "expected"), [("7", 7), ("-3", -3), (7, 7), ("high", 0), ("", 0)])
def test_a_priority_may_be_a_text(session: Session010, priority: str | int, expected: int) -> None:
    """Broker-J 9.2 reads it as a number, and ignores it where it is none."""
    session.call(MessageSubscribe("q", "d", 0, 0, arguments=Map({"x-priority": priority})))
    (consumer,) = session.client.broker.vhosts["/"].queues["q"].consumers
    assert consumer.priority == expected


def test_exclusive_subscriptions(session: Session010) -> None:
    session.call(MessageSubscribe("q", "d", 0, 0, exclusive=True))
    other = Client010(session.client.broker).open().session(1, b"other")
    assert other.fault(MessageSubscribe("q", "d", 0, 0))[0] == 405


def test_the_deletion_of_a_queue_is_not_told_to_its_subscribers(session: Session010) -> None:
    """As with Broker-J 9.2: the subscription stays, and may be given credit, flushed, stopped and cancelled."""
    session.subscribe("q", "d")
    other = Client010(session.client.broker).open().session(1, b"other")
    other.call(QueueDelete("q"))
    session.client.tick()
    assert session.take().exception is None
    session.call(QueueDeclare("q"))
    session.transfer(b"x", "q")
    for command in (MessageFlow("d", 0, 5), MessageFlush("d"), MessageStop("d")):
        session.call(command)
    assert session.exception is None
    assert session.fault(MessageSubscribe("q", "d", 0, 0))[0] == 530


def test_a_subscription_whose_queue_is_gone_can_be_cancelled_and_made_again(session: Session010) -> None:
    session.subscribe("q", "d")
    for command in (QueueDelete("q"), MessageCancel("d"), QueueDeclare("q")):
        session.call(command)
    session.transfer(b"x", "q")
    session.subscribe("q", "d")
    assert session.got() == [b"x"]


def test_a_time_to_live_is_told_and_kept(session: Session010) -> None:
    session.transfer(b"x", delivery=DeliveryProperties(routing_key="q", ttl=5000))
    session.transfer(b"y", delivery=DeliveryProperties(routing_key="q", ttl=1))
    session.client.now += 1
    session.client.tick()
    session.subscribe("q", "d")
    ((_, transfer),) = session.messages
    assert transfer.delivery_properties.ttl == 5000
    assert transfer.delivery_properties.expiration == 1_005_000


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (MessageSubscribe("none", "d", 0, 0), 404),
        (MessageSubscribe("", "d", 0, 0), 531),
        (MessageSubscribe("q", "taken", 0, 0), 530),
        (MessageSubscribe("q", "d", 0, 0, arguments=Map({"x-filter-jms-selector": "a ="})), 531),
        (MessageSubscribe("q", "d", 0, 0, arguments=Map({"x-priority": 1.5})), 406),
        (MessageFlow("none", 0, 1), 404),
        (MessageFlow("taken", 9, 1), 531),
        (MessageSetFlowMode("taken", 9), 531),
        (MessageStop("none"), 404),
        (MessageFlush("none"), 404),
        (MessageCancel("none"), 404),
    ],
)
def test_what_is_refused(session: Session010, command: Command, code: int) -> None:
    session.call(MessageSubscribe("q", "taken", 0, 0))
    assert session.fault(command)[0] == code


def test_acquire_of_what_is_not_held_acquires_nothing(session: Session010) -> None:
    assert not session.call(MessageAcquire(SequenceSet.of([5]))).transfers


def test_transfers_have_the_resume_id_that_their_subscription_asks_for(session: Session010) -> None:
    session.transfer(b"x", message=MessageProperties(content_type="text/plain"))
    session.subscribe("q", "d", resume_id="mine", resume_ttl=500, acquire_mode=1)
    session.subscribe("q", "e", resume_id="other")
    for (_, message), expected in zip(session.messages, (("mine", 500), ("other", None)), strict=True):
        delivery = message.delivery_properties
        assert (delivery.resume_id, delivery.resume_ttl, delivery.routing_key) == (*expected, "q")
        assert message.properties.content_type == "text/plain"


@pytest.mark.parametrize("arguments", [None, Map({"x-apache-selector": "n > 0"})])
@pytest.mark.parametrize("acquire_mode", [0, 1])
def test_flush_sends_all_that_is_there_in_however_many_turns(arguments: Map | None, acquire_mode: int) -> None:
    broker = Broker()
    broker.work.quantum.limit(step=2)
    session = Client010(broker).open().session()
    session.declare("q")
    for _ in range(100):
        session.transfer(b"x", message=MessageProperties(application_headers=Map({"n": 1})))
    session.call(MessageSubscribe("q", "d", 0, acquire_mode, arguments=arguments))
    session.send(MessageFlow("d", 0, INFINITE))
    session.send(MessageFlow("d", 1, INFINITE))
    session.call(MessageFlush("d"))
    assert len(session.got()) == 100


@pytest.mark.parametrize("is_marked", [True, False])
def test_what_is_released_in_several_ranges_comes_again_in_its_order(session: Session010, is_marked: bool) -> None:
    session.declare("ordered")
    for number in range(3):
        session.transfer(b"%d" % number, "ordered")
    session.subscribe("ordered", "d")
    first = session.messages[0][0]
    session.send(MessageRelease(SequenceSet.of([first])))
    session.take()
    again = session.messages[-1][0]
    session.messages = []
    session.send(MessageRelease(SequenceSet.of([first + 1, again]), set_redelivered=is_marked))
    assert session.got() == [b"0", b"1"]
