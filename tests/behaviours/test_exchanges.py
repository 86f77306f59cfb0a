"""Declaring and deleting exchanges: which there are from the start, and when they go by themselves."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import (
    ChannelOpen,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    QueueDelete,
    QueueUnbind,
)
from tests.behaviours.client import Channel, Closed
from tests.behaviours.scene import Scene

pytestmark = pytest.mark.real

PREDECLARED = {
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
    "amq.rabbitmq.trace": "topic",
}
TYPES = ["direct", "fanout", "topic", "headers"]


def there(ch: Channel, exchange: str) -> bool:
    try:
        ch.call(ExchangeDeclare(exchange=exchange, passive=True))
    except Closed:
        ch.call(ChannelOpen())
        return False
    return True


@pytest.mark.parametrize(("exchange", "type_"), PREDECLARED.items(), ids=PREDECLARED)
def test_predeclared(ch: Channel, exchange: str, type_: str) -> None:
    internal = exchange == "amq.rabbitmq.trace"
    ch.call(ExchangeDeclare(exchange=exchange, type=type_, durable=True, internal=internal))


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("flags", [{}, {"durable": True}, {"auto_delete": True}, {"internal": True}], ids=str)
def test_declared_again_alike(scene: Scene, ch: Channel, type_: str, flags: dict[str, bool]) -> None:
    ch.exchange(scene.x, type_, **flags)
    ch.exchange(scene.x, type_, **flags)
    ch.call(ExchangeDelete(exchange=scene.x))
    assert not there(ch, scene.x)


def test_passive_compares_nothing(scene: Scene, ch: Channel) -> None:
    ch.exchange(scene.x, "direct")
    ch.call(ExchangeDeclare(exchange=scene.x, type="carousel", passive=True, durable=True, internal=True))


def test_no_wait(scene: Scene, ch: Channel) -> None:
    """Neither answers, and both are done before what follows."""
    ch.send(ExchangeDeclare(exchange=scene.x, no_wait=True))
    assert there(ch, scene.x)
    ch.send(ExchangeDelete(exchange=scene.x, no_wait=True))
    assert not there(ch, scene.x)
    ch.expect_nothing()


def test_delete_takes_the_bindings(scene: Scene, ch: Channel, q: str) -> None:
    ch.exchange(scene.x, "fanout")
    ch.bind(q, scene.x)
    ch.call(ExchangeDelete(exchange=scene.x))
    ch.exchange(scene.x, "fanout")
    ch.publish(scene.x, "")
    assert ch.depth(q) == 0


def test_delete_if_unused_of_one_that_only_receives(scene: Scene, ch: Channel) -> None:
    """Only what leads away from an exchange is use."""
    ch.exchange(scene.x)
    ch.bind_exchange(scene.x, "amq.fanout")
    ch.call(ExchangeDelete(exchange=scene.x, if_unused=True))
    assert not there(ch, scene.x)


# ------------------------------------------------------------------------------------------------------ auto-delete


def test_auto_delete_waits_for_a_first_binding(scene: Scene, ch: Channel) -> None:
    ch.exchange(scene.x, auto_delete=True)
    ch.settle()
    assert there(ch, scene.x)


def test_auto_delete_goes_with_its_last_binding(scene: Scene, ch: Channel, q: str) -> None:
    ch.exchange(scene.x, auto_delete=True)
    ch.bind(q, scene.x, "a")
    ch.bind(q, scene.x, "b")
    ch.call(QueueUnbind(queue=q, exchange=scene.x, routing_key="a"))
    assert there(ch, scene.x)
    ch.call(QueueUnbind(queue=q, exchange=scene.x, routing_key="b"))
    assert not there(ch, scene.x)


def test_auto_delete_goes_with_its_last_queue(scene: Scene, ch: Channel) -> None:
    beside = scene.beside()
    queue = beside.declare(exclusive=True)
    ch.exchange(scene.x, auto_delete=True)
    ch.bind(queue, scene.x)
    ch.client.channel().call(QueueDelete(queue=queue))
    assert not there(ch, scene.x)


def test_auto_delete_counts_only_what_leads_away(scene: Scene, ch: Channel) -> None:
    """A destination lives on without its source; a source goes with its last destination."""
    ch.exchange(scene.x, auto_delete=True)
    ch.exchange(scene.x2, auto_delete=True)
    ch.bind_exchange(scene.x2, scene.x)
    ch.call(ExchangeUnbind(destination=scene.x2, source=scene.x))
    assert not there(ch, scene.x)
    assert there(ch, scene.x2)


def test_auto_delete_spreads(scene: Scene, ch: Channel, q: str) -> None:
    """The one that goes takes its bindings with it, and so the one before it goes too."""
    ch.exchange(scene.x, auto_delete=True)
    ch.exchange(scene.x2, auto_delete=True)
    ch.bind_exchange(scene.x2, scene.x)
    ch.bind(q, scene.x2)
    ch.call(QueueUnbind(queue=q, exchange=scene.x2))
    assert not there(ch, scene.x2)
    assert not there(ch, scene.x)


# --------------------------------------------------------------------------------------------------------- internal


def test_internal_is_reached_through_another(scene: Scene, ch: Channel, q: str) -> None:
    ch.exchange(scene.x, "fanout", internal=True)
    ch.exchange(scene.x2, "fanout")
    ch.bind(q, scene.x)
    ch.bind_exchange(scene.x, scene.x2)
    ch.publish(scene.x2, "", b"in")
    assert ch.drain(q) == [b"in"]


@pytest.mark.parametrize("name", ["with space", "é", "a" * 255, "-.:_/"], ids=["space", "UTF-8", "255 bytes", "marks"])
def test_names(ch: Channel, name: str) -> None:
    ch.exchange(name)
    assert there(ch, name)
    ch.call(ExchangeDelete(exchange=name))


def test_line_ends_are_taken_out_of_names(scene: Scene, ch: Channel) -> None:
    name = scene.x
    ch.exchange(f"{name}\r\n")
    assert there(ch, name)


def test_bind_twice_is_once(scene: Scene, ch: Channel, q: str) -> None:
    ch.exchange(scene.x, "fanout")
    ch.exchange(scene.x2, "fanout")
    for _ in range(2):
        ch.call(ExchangeBind(destination=scene.x2, source=scene.x))
    ch.bind(q, scene.x2)
    ch.publish(scene.x, "", b"once")
    assert ch.drain(q) == [b"once"]
    ch.call(ExchangeUnbind(destination=scene.x2, source=scene.x))
    ch.publish(scene.x, "", b"never")
    assert ch.drain(q) == []
