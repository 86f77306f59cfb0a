"""Types of exchange that RabbitMQ keeps in plugins: consistent hashing, and delayed messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from amqproxy.amqp091.methods import BasicReturn, ExchangeDeclare, QueueBind, QueueUnbind
from amqproxy.amqp091.wire import Table
from amqproxy.broker import Broker, serve_in_thread
from tests.behaviours.client import Channel, Client, until
from tests.behaviours.rabbitmq_target import RabbitMQTarget
from tests.behaviours.scene import Scene
from tests.behaviours.target import Target

pytestmark = pytest.mark.real

HASH = "x-consistent-hash"

# ------------------------------------------------------------------------------------------------ consistent hashing


@pytest.fixture(scope="module")
def hashing(broker: Target) -> Iterator[None]:
    with broker.plugins("rabbitmq_consistent_hash_exchange"):
        yield


def ring(scene: Scene, weights: list[str], **arguments: Any) -> list[str]:
    """Queues bound to the exchange `x` with these weights."""
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    scene.ch.exchange(scene.x, HASH, auto_delete=True, arguments=named)
    queues = [scene.ch.declare(exclusive=True) for _ in weights]
    for queue, weight in zip(queues, weights, strict=True):
        scene.ch.bind(queue, scene.x, weight)
    return queues


def test_each_message_goes_to_one_queue(hashing: None, scene: Scene, ch: Channel) -> None:
    queues = ring(scene, ["1", "1", "1"])
    for number in range(300):
        ch.publish(scene.x, f"key-{number}")
    counts = [len(ch.drain(queue)) for queue in queues]
    assert sum(counts) == 300
    assert min(counts) > 30


def test_the_same_key_goes_to_the_same_queue(hashing: None, scene: Scene, ch: Channel) -> None:
    queues = ring(scene, ["5", "5"])
    for number in range(50):
        for _ in range(2):
            ch.publish(scene.x, f"key-{number}", b"%d" % number)
    for queue in queues:
        assert set(Counter(ch.drain(queue)).values()) <= {2}


def test_weights_count(hashing: None, scene: Scene, ch: Channel) -> None:
    light, heavy = ring(scene, ["1", "10"])
    for number in range(300):
        ch.publish(scene.x, f"key-{number}")
    assert len(ch.drain(light)) < len(ch.drain(heavy)) / 2


def test_a_queue_that_comes_takes_from_the_others(hashing: None, scene: Scene, ch: Channel) -> None:
    """And what it does not take stays where it was."""
    first, second = ring(scene, ["10", "10"])
    third = ch.declare(exclusive=True)

    def places() -> dict[bytes, str]:
        for number in range(100):
            ch.publish(scene.x, f"key-{number}", b"%d" % number)
        return {body: queue for queue in (first, second, third) for body in ch.drain(queue)}

    before = places()
    ch.bind(third, scene.x, "10")
    after = places()
    assert {queue for body, queue in after.items() if queue != before[body]} == {third}
    ch.call(QueueUnbind(queue=third, exchange=scene.x, routing_key="10"))
    assert places() == before


@pytest.mark.parametrize("arguments", [{"hash_header": "h"}, {"hash_property": "message_id"}], ids=str)
def test_by_something_else(hashing: None, scene: Scene, ch: Channel, arguments: dict[str, str]) -> None:
    queues = ring(scene, ["5", "5"], **arguments)
    for number in range(100):
        ch.publish(scene.x, "the same key", headers={"h": f"v-{number}"}, message_id=f"v-{number}")
    assert min(len(ch.drain(queue)) for queue in queues) > 5


def test_without_queues_it_routes_nowhere(hashing: None, scene: Scene, ch: Channel) -> None:
    ring(scene, [])
    ch.publish(scene.x, "k", mandatory=True)
    ch.expect(BasicReturn)


def test_a_weight_is_a_number(hashing: None, scene: Scene, ch: Channel) -> None:
    (queue,) = ring(scene, ["1"])
    ch.send(QueueBind(queue=queue, exchange=scene.x, routing_key="heavy"))
    ch.expect_close('channel 406 queue.bind PRECONDITION_FAILED - The binding key must be an integer: <<"heavy">>')


def test_header_and_property_at_once(hashing: None, scene: Scene, ch: Channel) -> None:
    arguments = Table({"hash-header": "h", "hash-property": "message_id"})
    ch.send(ExchangeDeclare(exchange=scene.x, type=HASH, arguments=arguments))
    ch.expect_close(
        "channel 406 exchange.declare PRECONDITION_FAILED - hash-header and hash-property are mutually exclusive"
    )


def test_an_unknown_property(hashing: None, scene: Scene, ch: Channel) -> None:
    ch.send(ExchangeDeclare(exchange=scene.x, type=HASH, arguments=Table({"hash-property": "colour"})))
    ch.expect_close("channel 406 exchange.declare PRECONDITION_FAILED - Unsupported property: colour")


# ---------------------------------------------------------------------------------------------------- delayed messages

delayed = pytest.mark.unsupported_on_rabbitmq("the plugin for x-delayed-message is not in Debian")


@delayed
@pytest.mark.parametrize("type_", ["direct", "topic", "fanout"])
def test_delayed(scene: Scene, ch: Channel, q: str, type_: str) -> None:
    """The longer the delay, the later; without one, at once. The header is then negative: it has been served."""
    ch.exchange(scene.x, "x-delayed-message", auto_delete=True, arguments={"x-delayed-type": type_})
    ch.bind(q, scene.x, "k")
    for delay in (60, 30, None):
        ch.publish(scene.x, "k", b"%d" % (delay or 0), headers={"x-delay": delay} if delay else {})
    assert ch.depth(q) == 1
    until(lambda: ch.depth(q) == 3, "the delayed ones")
    messages = [ch.get(q) for _ in range(3)]
    assert [(each.body, each.headers.get("x-delay")) for each in messages if each] == [
        (b"0", None),
        (b"30", -30),
        (b"60", -60),
    ]


@delayed
def test_delayed_needs_to_know_its_type(scene: Scene, ch: Channel) -> None:
    ch.send(ExchangeDeclare(exchange=scene.x, type="x-delayed-message"))
    assert ch.refusal().startswith("channel 406 exchange.declare PRECONDITION_FAILED - ")


# -------------------------------------------------------------------------------------------------- without plugins


@pytest.fixture
def stock_port(broker: Target) -> Iterator[int]:
    """Of a broker that has no plugin for exchanges."""
    if isinstance(broker, RabbitMQTarget):
        yield broker.port
    else:
        with serve_in_thread(Broker(plugins=(), profile=broker.profile)) as background:
            yield background.port


def test_a_stock_broker_has_no_delayed_messages(stock_port: int, scene: Scene) -> None:
    with closing(Client(stock_port).open()) as client:
        channel = client.channel()
        arguments = Table({"x-delayed-type": "direct"})
        channel.send(ExchangeDeclare(exchange="x", type="x-delayed-message", arguments=arguments))
        channel.expect_close(scene.fill("{type_fault} - unknown exchange type 'x-delayed-message'"))
