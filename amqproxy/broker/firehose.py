"""The firehose: a copy of every message published and delivered in a virtual host while tracing is on."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Array, Field, Item, Table
from amqproxy.broker.message import Message

EXCHANGE = "amq.rabbitmq.trace"

_WIRE_TYPES = {"headers": "F", "delivery_mode": "I", "priority": "I", "timestamp": "l"}


def traced_publish(message: Message, place: Table, queues: list[str]) -> Message:
    """Return the trace message of a publish; `place` names its origin."""
    routed = Field("routed_queues", "A", Array([Item("S", queue) for queue in queues]))
    return _traced(f"publish.{message.exchange}", message, [*place.fields, routed])


def traced_delivery(message: Message, place: Table, queue: str, is_redelivered: bool) -> Message:
    """Return the trace message of a delivery or a basic.get."""
    redelivered = Field("redelivered", "I", int(is_redelivered))
    return _traced(f"deliver.{queue}", message, [redelivered, *place.fields])


def place(node: str, vhost: str, connection: str, channel: int, user: str) -> Table:
    """Return the headers that name a trace's origin; `connection` is written as `127.0.0.1:40000 -> 127.0.0.1:5672`."""
    return Table(
        [
            Field("node", "S", node),
            Field("vhost", "S", vhost),
            Field("connection", "S", connection),
            Field("channel", "I", channel),
            Field("user", "S", user),
        ]
    )


def _traced(routing_key: str, message: Message, rest: list[Field]) -> Message:
    keys = (message.routing_key, *message.more_keys)
    headers: dict[str, Any] = {
        "exchange_name": Item("S", message.exchange),
        "routing_keys": Array([Item("S", key) for key in keys]),
        "properties": Table(
            [Field(name, _WIRE_TYPES.get(name, "S"), value) for name, value in message.properties.present().items()]
        ),
    }
    fields = [*Table(headers).fields, *rest]
    return Message.made(EXCHANGE, _cut(routing_key), Properties(headers=Table(fields)), message.body)


def _cut(routing_key: str) -> str:
    """Return a routing key cut to the 255 bytes of a short string."""
    return routing_key.encode("utf-8", "surrogateescape")[:255].decode("utf-8", "ignore")
