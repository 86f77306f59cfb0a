"""Quorum queues, on one node: as classic ones, and what differs."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.methods import BasicDeliver, BasicRecover, QueueDelete, QueuePurge
from tests.behaviours.client import Channel, Received, until
from tests.behaviours.scene import Scene

pytestmark = pytest.mark.real


@pytest.fixture
def quorum(scene: Scene) -> str:
    return make(scene)


def make(scene: Scene, **arguments: Any) -> str:
    """A quorum queue, which goes with the test; the channel is in confirm mode."""
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    queue = scene.ch.declare(scene.name("quorum"), durable=True, arguments={"x-queue-type": "quorum", **named})
    scene.stack.callback(lambda: scene.channel().call(QueueDelete(queue=queue)))
    scene.ch.confirms()
    return queue


def publish(ch: Channel, queue: str, *bodies: bytes, **properties: Any) -> None:
    for body in bodies:
        ch.publish("", queue, body, **properties)
        assert ch.outcome() == "ack"


def got(ch: Channel, queue: str) -> Received:
    """The next message, unacknowledged, as soon as there is one."""
    return until(lambda: ch.get(queue, no_ack=False), "a message")  # type: ignore[no-any-return]


def test_first_in_first_out(ch: Channel, quorum: str) -> None:
    publish(ch, quorum, b"1", b"2", b"3")
    assert ch.drain(quorum) == [b"1", b"2", b"3"]


def test_each_delivery_bears_a_count(scene: Scene, ch: Channel, quorum: str) -> None:
    publish(ch, quorum, b"1", headers={"mine": 1})
    received = got(ch, quorum)
    assert received.properties.headers is not None
    count = [("x-delivery-count", "l", 0)] if scene.profile.counts_first_delivery else []
    fields = received.properties.headers.fields
    assert [(field.name, field.type, field.value) for field in fields] == [("mine", "I", 1), *count]


@pytest.mark.parametrize("how", ["reject", "nack", "recover"])
def test_returns_are_counted(scene: Scene, ch: Channel, quorum: str, how: str) -> None:
    publish(ch, quorum, b"1")
    counts, messages = [], []
    for _ in range(3):
        message = got(ch, quorum)
        messages.append(message)
        counts.append((message.headers.get("x-delivery-count"), message.method.redelivered))
        if how == "reject":
            ch.reject(message, requeue=True)
        elif how == "nack":
            ch.nack(message)
        else:
            ch.call(BasicRecover(True))
    first = 0 if scene.profile.counts_first_delivery else None
    is_counted = how == "reject" or not scene.profile.counts_acquisitions
    assert counts == [(first, False), *[(each if is_counted else None, True) for each in (1, 2)]]
    acquired = [message.headers.get("x-acquired-count") for message in messages]
    assert acquired == ([None, 1, 2] if scene.profile.counts_acquisitions else [None] * 3)


def test_counts_stand_among_sorted_headers(scene: Scene, ch: Channel, quorum: str) -> None:
    publish(ch, quorum, b"1", headers={"z": 1, "a": 2})
    ch.reject(got(ch, quorum), requeue=True)
    names = list(got(ch, quorum).headers)
    if scene.profile.counts_acquisitions:
        assert names == ["a", "x-acquired-count", "x-delivery-count", "z"]
    else:
        assert names == ["a", "x-delivery-count", "z"]


def test_delivery_limit(scene: Scene, ch: Channel) -> None:
    """A message may be returned so many times, and is dropped when it is returned once more."""
    queue = make(scene, x_delivery_limit=2)
    publish(ch, queue, b"1")
    for _ in range(3):
        ch.reject(got(ch, queue), requeue=True)
    until(lambda: ch.depth(queue) == 0, "the message to be dropped")
    assert ch.drain(queue) == []


def test_what_passes_the_limit_is_a_dead_letter(scene: Scene, ch: Channel, q: str) -> None:
    queue = make(scene, x_delivery_limit=0, x_dead_letter_exchange="", x_dead_letter_routing_key=q)
    publish(ch, queue, b"1")
    ch.reject(got(ch, queue), requeue=True)
    letter = until(lambda: ch.get(q), "the dead letter")
    (death,) = letter.headers["x-death"]
    assert (death["reason"], death["queue"], death["count"]) == ("delivery_limit", queue, 1)


def test_a_reject_is_a_dead_letter(scene: Scene, ch: Channel, q: str) -> None:
    queue = make(scene, x_dead_letter_exchange="", x_dead_letter_routing_key=q)
    publish(ch, queue, b"1")
    ch.reject(got(ch, queue))
    letter = until(lambda: ch.get(q), "the dead letter")
    assert letter.headers["x-death"][0]["reason"] == "rejected"


def test_overflow_is_a_dead_letter(scene: Scene, ch: Channel, q: str) -> None:
    queue = make(scene, x_max_length=1, x_dead_letter_exchange="", x_dead_letter_routing_key=q)
    publish(ch, queue, b"1", b"2")
    letter = until(lambda: ch.get(q), "the dead letter")
    assert (letter.body, letter.headers["x-death"][0]["reason"]) == (b"1", "maxlen")


def test_consuming(ch: Channel, quorum: str) -> None:
    publish(ch, quorum, b"1", b"2")
    ch.consume(quorum, "c")
    first, second = ch.deliveries(2)
    assert (first.body, second.body) == (b"1", b"2")
    ch.ack(second, multiple=True)
    ch.cancel("c")
    assert ch.drain(quorum) == []


def test_prefetch(scene: Scene, ch: Channel, quorum: str) -> None:
    publish(ch, quorum, b"1", b"2", b"3")
    beside = scene.beside()
    beside.qos(2)
    beside.consume(quorum)
    first, _ = beside.deliveries(2)
    beside.expect_nothing(quorum)
    beside.ack(first)
    assert beside.bodies(1) == [b"3"]


@pytest.mark.parametrize(
    ("arguments", "order"),
    [({}, [b"3", b"1", b"2"]), ({"x_delivery_limit": 5}, [b"1", b"2", b"3"])],
    ids=["to the back", "to the front with a delivery-limit"],
)
def test_where_returned_messages_go(scene: Scene, ch: Channel, arguments: dict[str, int], order: list[bytes]) -> None:
    queue = make(scene, **arguments)
    publish(ch, queue, b"1", b"2", b"3")
    if scene.profile.delivery_limit is not None:
        order = [b"1", b"2", b"3"]
    first, second = got(ch, queue), got(ch, queue)
    ch.reject(first, requeue=True)
    ch.reject(second, requeue=True)
    until(lambda: ch.depth(queue) == 3, "both to be back")
    assert [got(ch, queue).body for _ in range(3)] == order


def test_a_lost_connection_returns_messages(scene: Scene, ch: Channel, quorum: str) -> None:
    publish(ch, quorum, b"1")
    other = scene.channel()
    other.consume(quorum)
    other.deliveries(1)
    other.client.abandon()
    message = got(ch, quorum)
    assert (message.body, message.headers["x-delivery-count"], message.method.redelivered) == (b"1", 1, True)


def test_single_active_consumer(scene: Scene, ch: Channel) -> None:
    queue = make(scene, x_single_active_consumer=True)
    beside = scene.beside()
    beside.consume(queue, "a")
    beside.consume(queue, "b")
    publish(ch, queue, b"1", b"2")
    assert [each.method.consumer_tag for each in beside.deliveries(2)] == ["a", "a"]
    beside.cancel("a")
    publish(ch, queue, b"3")
    beside.expect(BasicDeliver, consumer_tag="b")


def test_the_next_single_active_consumer_does_not_wait(scene: Scene, ch: Channel) -> None:
    """As it does for a classic queue."""
    queue = make(scene, x_single_active_consumer=True)
    beside = scene.beside()
    publish(ch, queue, *(b"%d" % number for number in range(4)))
    beside.qos(2)
    beside.consume(queue, "a")
    assert beside.bodies(2) == [b"0", b"1"]
    other = scene.beside()
    other.consume(queue, "b")
    beside.cancel("a")
    assert other.bodies(2) == [b"2", b"3"]


def test_purge(ch: Channel, quorum: str) -> None:
    publish(ch, quorum, b"1", b"2")
    assert ch.call(QueuePurge(queue=quorum)).message_count == 2
    assert ch.drain(quorum) == []


def test_delete_counts_messages(scene: Scene, ch: Channel) -> None:
    queue = ch.declare(scene.q, durable=True, arguments={"x-queue-type": "quorum"})
    ch.confirms()
    publish(ch, queue, b"1", b"2")
    assert ch.call(QueueDelete(queue=queue)).message_count == 2


def test_transient_messages_are_kept_too(scene: Scene, ch: Channel, quorum: str) -> None:
    publish(ch, quorum, b"1", delivery_mode=1)
    assert ch.drain(quorum) == [b"1"]


def test_a_full_queue_that_rejects(scene: Scene, ch: Channel) -> None:
    """The limit takes hold a little late, as the queue notifies its publishers when it is full."""
    queue = make(scene, x_max_length=1, x_overflow="reject-publish")
    outcomes = set()
    for _ in range(20):
        ch.publish("", queue)
        outcomes.add(ch.outcome())
        if "nack" in outcomes:
            break
    assert outcomes == {"ack", "nack"}
