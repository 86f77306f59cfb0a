"""Line breaks in names: RabbitMQ drops them where it declares, binds and deletes, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicGet,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from tests.behaviours.client import Channel
from tests.behaviours.scene import Scene

pytestmark = pytest.mark.real


def broken(name: str) -> str:
    return f"{name[:1]}\r\n{name[1:]}"


@pytest.fixture
def x(scene: Scene) -> str:
    scene.ch.exchange(scene.x, "topic")
    scene.ch.exchange(scene.x2, "topic")
    return scene.x


def test_a_queue_is_declared_without_them(scene: Scene, ch: Channel) -> None:
    assert ch.declare(broken(scene.q), exclusive=True) == scene.q
    assert ch.call(QueueDeclare(queue=broken(scene.q), passive=True)).queue == scene.q


def test_a_queue_is_deleted_without_them(ch: Channel, q: str) -> None:
    ch.call(QueueDelete(queue=broken(q)))
    ch.send(QueueDeclare(queue=q, passive=True))
    ch.expect_close(f"channel 404 queue.declare NOT_FOUND - no queue '{q}' in vhost 'behaviours'")


@pytest.mark.parametrize("in_queue", [True, False])
def test_bindings_are_made_and_undone_without_them(ch: Channel, q: str, x: str, in_queue: bool) -> None:
    queue, exchange = (broken(q), x) if in_queue else (q, broken(x))
    ch.call(QueueBind(queue=queue, exchange=exchange, routing_key="k"))
    ch.publish(x, "k", b"x")
    assert ch.drain(q) == [b"x"]
    ch.call(QueueUnbind(queue=queue, exchange=exchange, routing_key="k"))
    ch.publish(x, "k", b"x")
    assert ch.drain(q) == []


def test_exchanges_are_bound_and_unbound_without_them(scene: Scene, ch: Channel, q: str, x: str) -> None:
    ch.call(QueueBind(queue=q, exchange=scene.x2, routing_key="k"))
    ch.call(ExchangeBind(source=broken(x), destination=broken(scene.x2), routing_key="k"))
    ch.publish(x, "k", b"x")
    assert ch.drain(q) == [b"x"]
    ch.call(ExchangeUnbind(source=broken(x), destination=broken(scene.x2), routing_key="k"))
    ch.publish(x, "k", b"x")
    assert ch.drain(q) == []


def test_an_exchange_is_declared_and_deleted_without_them(ch: Channel, x: str) -> None:
    ch.call(ExchangeDeclare(exchange=broken(x), type="topic"))
    ch.call(ExchangeDeclare(exchange=broken(x), passive=True))
    ch.call(ExchangeDelete(exchange=broken(x)))
    ch.send(ExchangeDeclare(exchange=x, passive=True))
    ch.expect_close(f"channel 404 exchange.declare NOT_FOUND - no exchange '{x}' in vhost 'behaviours'")


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("basic.get", lambda queue: BasicGet(queue=queue)),
        ("basic.consume", lambda queue: BasicConsume(queue=queue)),
        ("queue.purge", lambda queue: QueuePurge(queue=queue)),
    ],
)
@pytest.mark.parametrize("is_alone", [True, False], ids=["line break", "in a name"])
def test_messages_are_taken_with_them(
    ch: Channel, q: str, name: str, method: Callable[[str], Method], is_alone: bool
) -> None:
    """Not even a name of a line break alone is the last queue's."""
    queue = "\n" if is_alone else broken(q)
    ch.send(method(queue))
    ch.expect_close(f"channel 404 {name} NOT_FOUND - no queue '{queue}' in vhost 'behaviours'")


def test_messages_are_published_with_them(ch: Channel, x: str) -> None:
    ch.publish(broken(x), "k", b"x")
    ch.expect_close(f"channel 404 basic.publish NOT_FOUND - no exchange '{broken(x)}' in vhost 'behaviours'")


def test_a_queue_may_be_left_to_the_broker_with_one(ch: Channel) -> None:
    assert ch.declare("\r\n", exclusive=True).startswith("amq.gen-")


def test_the_last_queue_is_not_bound_by_one(ch: Channel, q: str, x: str) -> None:
    ch.send(QueueBind(queue="\n", exchange=x, routing_key="k"))
    ch.expect_close("channel 404 queue.bind NOT_FOUND - no queue '' in vhost 'behaviours'")


def test_a_dead_letter_exchange_keeps_them(scene: Scene, ch: Channel, q: str, x: str) -> None:
    ch.call(QueueBind(queue=q, exchange=x, routing_key="#"))
    arguments = {"x-dead-letter-exchange": broken(x), "x-message-ttl": 0}
    ch.declare(scene.q2, exclusive=True, arguments=arguments)
    ch.publish("", scene.q2, b"x")
    assert ch.drain(q) == []


def test_an_alternate_exchange_keeps_them(scene: Scene, ch: Channel, q: str, x: str) -> None:
    ch.call(QueueBind(queue=q, exchange=x, routing_key="#"))
    ch.exchange(scene.name("alt"), "direct", arguments={"alternate-exchange": broken(x)})
    ch.publish(scene.name("alt"), "k", b"x")
    assert ch.drain(q) == []
