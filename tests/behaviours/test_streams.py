"""Streams: a log that is read and not emptied, from wherever the reader likes."""

from __future__ import annotations

import time
from typing import Any

import pytest

from amqproxy.amqp091.methods import BasicDeliver, BasicNack, BasicReject, Method, QueueDelete
from amqproxy.amqp091.wire import Item
from tests.behaviours.client import Channel, Received
from tests.behaviours.scene import Scene

pytestmark = pytest.mark.real


@pytest.fixture
def stream(scene: Scene) -> str:
    """A stream, which goes with the test; the channel is in confirm mode."""
    queue = scene.ch.declare(scene.name("stream"), durable=True, arguments={"x-queue-type": "stream"})
    scene.stack.callback(lambda: scene.channel().call(QueueDelete(queue=queue)))
    scene.ch.confirms()
    return queue


def publish(ch: Channel, queue: str, *bodies: bytes, **properties: Any) -> None:
    """One chunk each, as every message is confirmed before the next is sent."""
    for body in bodies:
        ch.publish("", queue, body, **properties)
        assert ch.outcome() == "ack"


def reader(scene: Scene, stream: str, offset: Any = None, prefetch: int = 100) -> Channel:
    ch = scene.beside()
    ch.qos(prefetch)
    ch.consume(stream, "reader", arguments={} if offset is None else {"x-stream-offset": offset})
    return ch


def read(ch: Channel, count: int) -> list[bytes]:
    """The next bodies, each acknowledged."""
    bodies = []
    for _ in range(count):
        received = ch.expect(BasicDeliver)
        ch.ack(received)
        bodies.append(received.body)
    return bodies


BODIES = [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        ("first", BODIES),
        (0, BODIES),
        (2, BODIES[2:]),
        (Item("l", 3), BODIES[3:]),
        ("last", BODIES[3:]),
        ("1h", BODIES),
        ("1D", BODIES),
        (Item("T", 0), BODIES),
    ],
    ids=["first", "0", "2", "3 as a long", "last", "an hour ago", "a day ago", "1970"],
)
def test_offsets(scene: Scene, ch: Channel, stream: str, offset: Any, expected: list[bytes]) -> None:
    publish(ch, stream, *BODIES)
    beside = reader(scene, stream, offset)
    assert read(beside, len(expected)) == expected
    beside.expect_nothing()


@pytest.mark.parametrize(
    "offset",
    [None, "next", 100, Item("T", 4_000_000_000)],
    ids=["by default", "next", "a number to come", "a time to come"],
)
def test_offsets_at_the_end(scene: Scene, ch: Channel, stream: str, offset: Any) -> None:
    publish(ch, stream, *BODIES)
    beside = reader(scene, stream, offset)
    beside.expect_nothing()
    if offset != 100:
        publish(ch, stream, b"new")
        assert read(beside, 1) == [b"new"]


def test_offset_of_a_time(scene: Scene, ch: Channel, stream: str) -> None:
    """Seconds; what begins later than that is delivered, and the chunk around it."""
    publish(ch, stream, b"0")
    beside = reader(scene, stream, Item("T", int(time.time()) - 60))
    assert read(beside, 1) == [b"0"]


def test_each_message_has_its_offset(scene: Scene, ch: Channel, stream: str) -> None:
    publish(ch, stream, *BODIES, headers={"mine": 1})
    received = reader(scene, stream, "first").deliveries(4)
    assert [each.headers for each in received] == [{"mine": 1, "x-stream-offset": number} for number in range(4)]
    fields = received[0].properties.headers.fields  # type: ignore[union-attr]
    assert [(field.name, field.type) for field in fields] == [("mine", "I"), ("x-stream-offset", "l")]


def test_reading_takes_nothing_away(scene: Scene, ch: Channel, stream: str) -> None:
    publish(ch, stream, *BODIES)
    for _ in range(2):
        beside = reader(scene, stream, "first")
        assert read(beside, 4) == BODIES
        beside.cancel("reader")


def test_messages_come_one_by_one(scene: Scene, ch: Channel, stream: str) -> None:
    publish(ch, stream, *BODIES)
    beside = reader(scene, stream, "first", prefetch=1)
    for body in BODIES:
        received: Received = beside.expect(BasicDeliver, redelivered=False)
        assert received.body == body
        beside.ack(received)


@pytest.mark.parametrize("method", [BasicReject, BasicNack])
def test_nothing_can_be_given_back(scene: Scene, ch: Channel, stream: str, method: type[Method]) -> None:
    publish(ch, stream, b"x")
    other = scene.channel()
    other.qos(1)
    other.consume(stream, arguments={"x-stream-offset": "first"})
    other.deliveries(1)
    other.send(method(1))
    if scene.profile.stream_takes_rejects:
        other.expect_nothing()
        return
    other.expect_close(
        f"connection 540 {method.name} NOT_IMPLEMENTED - basic.nack and basic.reject not supported by stream queues "
        f"queue '{stream}' in vhost 'behaviours'"
    )


def test_prefetch(scene: Scene, ch: Channel, stream: str) -> None:
    publish(ch, stream, *BODIES)
    beside = reader(scene, stream, "first", prefetch=2)
    first, _ = beside.deliveries(2)
    beside.expect_nothing()
    beside.ack(first)
    assert beside.bodies(1) == [b"2"]
    beside.expect_nothing()


def test_acks_of_many(scene: Scene, ch: Channel, stream: str) -> None:
    publish(ch, stream, *BODIES)
    beside = reader(scene, stream, "first", prefetch=2)
    beside.deliveries(2)
    beside.ack(2, multiple=True)
    assert beside.bodies(2) == [b"2", b"3"]


def test_readers_do_not_share(scene: Scene, ch: Channel, stream: str) -> None:
    readers = [reader(scene, stream, "first") for _ in range(3)]
    publish(ch, stream, *BODIES)
    assert [read(each, 4) for each in readers] == [BODIES] * 3


def test_live_messages_follow(scene: Scene, ch: Channel, stream: str) -> None:
    publish(ch, stream, b"0")
    beside = reader(scene, stream, "first")
    assert read(beside, 1) == [b"0"]
    publish(ch, stream, b"1")
    assert read(beside, 1) == [b"1"]


def test_properties_are_kept(scene: Scene, ch: Channel, stream: str) -> None:
    publish(ch, stream, b"x", message_id="m", content_type="t", headers={"a": "b", "n": 1}, delivery_mode=2)
    (received,) = reader(scene, stream, "first").deliveries(1)
    assert (received.properties.message_id, received.properties.content_type) == ("m", "t")
    assert received.headers == {"a": "b", "n": 1, "x-stream-offset": 0}
    assert received.properties.delivery_mode == 2


def test_routing_is_as_for_any_queue(scene: Scene, ch: Channel, stream: str) -> None:
    ch.exchange(scene.x, "fanout", auto_delete=True)
    ch.bind(stream, scene.x)
    ch.publish(scene.x, "k", b"routed")
    assert ch.outcome() == "ack"
    (received,) = reader(scene, stream, "first").deliveries(1)
    assert (received.method.exchange, received.method.routing_key) == (scene.x, "k")


def test_large_messages(scene: Scene, ch: Channel, stream: str) -> None:
    body = bytes(300_000)
    publish(ch, stream, body)
    assert reader(scene, stream, "first").bodies(1) == [body]
