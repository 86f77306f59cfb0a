"""Events of messages, with what a test does not care about filled in."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.methods import BasicDeliver, BasicPublish
from amqproxy.amqp091.properties import NO_PROPERTIES, Properties
from amqproxy.taps.trace.events import (
    ConnectionOpened,
    DeliveriesSettled,
    MessageDelivered,
    MessagePublished,
    PublishesSettled,
    Settlement,
)
from amqproxy.taps.trace.open_tags import Span


def opened(virtual_host: str = "/", **client: Any) -> ConnectionOpened:
    return ConnectionOpened(
        0,
        virtual_host=virtual_host,
        mechanism="PLAIN",
        user="guest",
        client_properties=client,
        server_properties=None,
        channel_max=0,
        frame_max=0,
        heartbeat=0,
        latency_ns=None,
    )


def published(
    ts_ns: int,
    body: bytes = b"hello",
    *,
    exchange: str = "x",
    routing_key: str = "k",
    number: int = 1,
    properties: Properties = NO_PROPERTIES,
    **fields: Any,
) -> MessagePublished:
    fields = {"size": len(body), "awaits": False, "body": body, **fields}
    method = BasicPublish(exchange=exchange, routing_key=routing_key)
    return MessagePublished(ts_ns, 1, 1, number=number, method=method, properties=properties, **fields)


def delivered(
    ts_ns: int,
    body: bytes = b"hello",
    *,
    exchange: str = "x",
    routing_key: str = "k",
    tag: int = 1,
    redelivered: bool = False,
    queue: str | None = "q",
    properties: Properties = NO_PROPERTIES,
    **fields: Any,
) -> MessageDelivered:
    fields = {"size": len(body), "awaits": True, "body": body, **fields}
    method = BasicDeliver("c", tag, redelivered, exchange, routing_key)
    return MessageDelivered(ts_ns, 1, 1, method=method, properties=properties, queue=queue, **fields)


def publish_settled(ts_ns: int, outcome: Settlement, number: int = 1) -> PublishesSettled:
    return PublishesSettled(ts_ns, 1, 1, outcome=outcome, spans=(Span(number, number, 0),))


def delivery_settled(ts_ns: int, outcome: Settlement, tag: int = 1, *, requeue: bool = False) -> DeliveriesSettled:
    return DeliveriesSettled(ts_ns, 1, 1, outcome=outcome, spans=(Span(tag, tag, 0),), requeue=requeue)
