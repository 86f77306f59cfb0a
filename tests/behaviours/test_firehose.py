"""The firehose: copies of all that is published and delivered in a virtual host that is traced."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from amqproxy.amqp091.methods import ExchangeDeclare
from amqproxy.amqp091.wire import Table
from tests.behaviours.client import Channel, Received, until
from tests.behaviours.scene import VHOST, Scene
from tests.behaviours.target import Target

pytestmark = pytest.mark.real

TRACE = "amq.rabbitmq.trace"


@pytest.fixture(scope="module")
def traced(broker: Target) -> Iterator[None]:
    broker.trace(VHOST, True)
    yield
    broker.trace(VHOST, False)


@pytest.fixture
def tap(traced: None, scene: Scene) -> str:
    """A queue that shows the trace."""
    return scene.ch.declare(exclusive=True)


def seen(ch: Channel, tap: str) -> Received:
    return until(lambda: ch.get(tap), "a trace")  # type: ignore[no-any-return]


def test_a_publish(scene: Scene, ch: Channel, tap: str, q: str) -> None:
    ch.bind(tap, TRACE, "publish.amq.direct")
    ch.bind(q, "amq.direct", q)
    ch.publish("amq.direct", q, b"body", message_id="m", headers={"mine": 1}, delivery_mode=2)
    trace = seen(ch, tap)
    assert (trace.method.exchange, trace.method.routing_key) == (TRACE, "publish.amq.direct")
    assert trace.body == b"body"
    assert trace.properties.message_id is None
    headers = trace.headers
    assert headers.pop("node")
    assert headers.pop("connection")
    assert headers == {
        "exchange_name": "amq.direct",
        "routing_keys": [q],
        "properties": {"headers": {"mine": 1}, "delivery_mode": 2, "message_id": "m"},
        "vhost": VHOST,
        "channel": 1,
        "user": "guest",
        "routed_queues": [q],
    }


def test_a_delivery(scene: Scene, ch: Channel, tap: str, q: str) -> None:
    ch.bind(tap, TRACE, f"deliver.{q}")
    ch.consume(q, no_ack=True)
    ch.publish("amq.fanout", q)
    ch.publish("", q, b"body")
    ch.deliveries(1)
    trace = seen(ch, tap)
    assert trace.body == b"body"
    assert (trace.headers["exchange_name"], trace.headers["routing_keys"], trace.headers["redelivered"]) == ("", [q], 0)
    assert "routed_queues" not in trace.headers


def test_a_get_is_a_delivery(ch: Channel, tap: str, q: str) -> None:
    ch.bind(tap, TRACE, f"deliver.{q}")
    ch.publish("", q)
    first = ch.get(q, no_ack=False)
    assert first
    assert seen(ch, tap).headers["redelivered"] == 0
    ch.reject(first, requeue=True)
    ch.get(q)
    assert seen(ch, tap).headers["redelivered"] == 1


def test_the_default_exchange(ch: Channel, tap: str, q: str) -> None:
    ch.bind(tap, TRACE, "publish.")
    ch.publish("", q, headers={"CC": ["nowhere"]})
    headers = seen(ch, tap).headers
    assert headers["routing_keys"] == [q, "nowhere"]
    assert sorted(headers["routed_queues"]) == ["nowhere", q]  # it names queues, whether they are there or not


def test_what_goes_nowhere(scene: Scene, ch: Channel, tap: str) -> None:
    exchange = ch.exchange(scene.x, auto_delete=True)
    ch.bind(tap, TRACE, f"publish.{exchange}")
    ch.publish(exchange, "k")
    assert seen(ch, tap).headers["routed_queues"] == []


def test_traces_are_not_traced(ch: Channel, tap: str, q: str) -> None:
    ch.bind(tap, TRACE, f"publish.{TRACE}")
    ch.bind(tap, TRACE, f"deliver.{tap}")
    ch.publish("", q)
    ch.expect_nothing(tap)
    assert ch.drain(tap) == []


def test_it_is_internal(ch: Channel, traced: None) -> None:
    ch.call(ExchangeDeclare(exchange=TRACE, type="topic", durable=True, internal=True, arguments=Table()))
    ch.publish(TRACE, "k")
    ch.expect_close(
        f"channel 403 basic.publish ACCESS_REFUSED - cannot publish to internal exchange '{TRACE}' in vhost '{VHOST}'"
    )
