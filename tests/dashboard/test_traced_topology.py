"""Topology of captures of both protocols, from their requests."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicConsumeOk,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from amqproxy.dashboard import traced_topology as module
from amqproxy.dashboard.capture_source import CaptureSource
from amqproxy.dashboard.party import Party
from amqproxy.dashboard.traced_topology import TracedTopology
from amqproxy.peer import CLIENT
from amqproxy.taps.trace.amqp091.connection_trace import Trace
from amqproxy.taps.trace.events import RequestAnswered, RequestSent
from amqproxy.taps.trace.snapshot import (
    ChannelSnapshot,
    ConnectionSnapshot,
    ConsumerSnapshot,
    DeclarationSnapshot,
)
from tests.dashboard.conftest import capture_of

pytestmark = pytest.mark.once

SHOP = Party("shop", "guest", "/")


def answered(request: Method, reply: Method) -> RequestAnswered:
    return RequestAnswered(10**9, 1, 1, sender=CLIENT, request=request, reply=reply, latency_ns=1)


def entries(topology: TracedTopology) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(each) for each in topology.entries()]


def topology_of(capture: str) -> list[dict[str, Any]]:
    source = CaptureSource(1, capture_of(capture), 1 << 24, lambda: None)
    asyncio.run(source.run())
    assert source.observed.topology is not None
    return entries(source.observed.topology)


def test_an_empty_name_is_the_queue_that_the_broker_has_named() -> None:
    topology = TracedTopology()
    topology.take(
        3,
        "a:1-b:2",
        SHOP,
        [
            answered(QueueDeclare(queue=""), QueueDeclareOk(queue="amq.gen-1", message_count=0, consumer_count=0)),
            RequestSent(10**9, 1, 1, sender=CLIENT, request=QueueBind(queue="", exchange="orders", no_wait=True)),
            answered(BasicConsume(queue=""), BasicConsumeOk(consumer_tag="ctag")),
        ],
    )
    found = {each["kind"]: each for each in entries(topology)}
    assert (found["queue"]["name"], found["queue"]["consumers"]) == ("amq.gen-1", 1)
    assert found["queue"]["declared_by"] == {"session": 3, "user": "guest", "client": "a:1"}
    assert (found["binding"]["destination"], found["binding"]["state"]) == ("amq.gen-1", "unsure")
    assert (found["consumer"]["queue"], found["consumer"]["consumer_tag"]) == ("amq.gen-1", "ctag")


def test_a_connection_joined_in_its_middle_has_what_its_snapshot_tells() -> None:
    topology = TracedTopology()
    declarations = [
        DeclarationSnapshot(method=QueueDeclare(queue="q", durable=True).encode(), ts_ns=5 * 10**9),
        DeclarationSnapshot(
            method=ExchangeDeclare(exchange="e", type="topic").encode(),
            ts_ns=10**9,
            session=1,
            user="admin",
            address="c:3",
        ),
        DeclarationSnapshot(method=QueueBind(queue="q", exchange="e", routing_key="k").encode(), ts_ns=6 * 10**9),
        DeclarationSnapshot(method=b"not a method", ts_ns=1),
    ]
    channel = ChannelSnapshot(
        number=1, consumers=(ConsumerSnapshot(tag="c", queue="q", no_ack=True),), last_queue="q", mode="normal"
    )
    snapshot = ConnectionSnapshot(ts_ns=10**10, protocol="0-9-1", channels=(channel,), declarations=tuple(declarations))
    restored = Trace().restore(ConnectionSnapshot.from_bytes(snapshot.to_bytes()))
    later = answered(QueueBind(queue="", exchange="f"), QueueBindOk())
    for _ in range(2):  # from the snapshot of a later gap, too
        topology.take(3, "a:1-b:2", SHOP, restored)
    topology.take(3, "a:1-b:2", SHOP, [later])
    found = {(each["kind"], each.get("name") or each.get("source")): each for each in entries(topology)}
    queue, exchange = found["queue", "q"], found["exchange", "e"]
    assert (queue["durable"], queue["consumers"], queue["declared_at"]) == (True, 1, 5)
    assert queue["declared_by"] == {"session": 3, "user": "guest", "client": "a:1"}
    assert (exchange["type"], exchange["declared_at"]) == ("topic", 1)
    assert exchange["declared_by"] == {"session": 1, "user": "admin", "client": "c:3"}
    assert (found["binding", "e"]["routing_key"], found["binding", "f"]["destination"]) == ("k", "q")
    assert (found["consumer", "shop"]["queue"], found["consumer", "shop"]["no_ack"]) == ("q", True)


def test_what_was_deleted_stays() -> None:
    topology = TracedTopology()
    declared = answered(QueueDeclare(queue="q"), QueueDeclareOk(queue="q", message_count=0, consumer_count=0))
    deleted = answered(QueueDelete(queue="q"), QueueDeleteOk(message_count=0))
    topology.take(3, "a:1-b:2", SHOP, [declared, deleted])
    [found] = entries(topology)
    assert (found["state"], found["deleted_for"]) == ("deleted", "deleted")
    topology.take(3, "a:1-b:2", SHOP, [declared])
    [found] = entries(topology)
    assert (found["state"], found.get("deleted_for")) == ("declared", None)


def test_consumers_and_last_queues_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONSUMERS", 5)
    monkeypatch.setattr(module, "MAX_CHANNELS", 5)
    topology = TracedTopology()
    for stream in range(20):
        declared = answered(QueueDeclare(queue="q"), QueueDeclareOk(queue="q", message_count=0, consumer_count=0))
        consumed = answered(BasicConsume(queue="q"), BasicConsumeOk(consumer_tag="c"))
        topology.take(stream, "a:1-b:2", SHOP, [declared, consumed])
    assert len([each for each in entries(topology) if each["kind"] == "consumer"]) == 5
    assert len(topology._last) == 5


@pytest.mark.parametrize("capture", ["publish-get-ack", "brokerj9.2__jms-010-tx"])
def test_captures_of_both_protocols_have_their_queues(capture: str) -> None:
    found = topology_of(capture)
    assert any(each["kind"] == "queue" for each in found)
    assert all(each["vhost"] is not None for each in found)


def test_consumers_of_0_10_are_subscriptions() -> None:
    consumers = [each for each in topology_of("brokerj9.2__jms-010-tx") if each["kind"] == "consumer"]
    assert consumers
    assert all(each["queue"] for each in consumers)
