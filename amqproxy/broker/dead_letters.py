"""What a message looks like once a queue has let it go: x-death, and its first reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from amqproxy.amqp091.wire import Array, Field, Item, Table
from amqproxy.broker.message import Message

if TYPE_CHECKING:
    from amqproxy.broker.queue import Queue


def dead_lettered(queue: Queue, message: Message, reason: str, now: float, exchange: str) -> Message:
    """`message` as `queue` passes it on to its dead-letter `exchange`, for `reason`."""
    routing_key = queue.arguments.get("x-dead-letter-routing-key")
    if not isinstance(routing_key, str):
        routing_key = message.routing_key
    properties = message.properties
    fields = list(properties.headers.fields) if properties.headers else []
    deaths = next((field.value for field in fields if field.name == "x-death"), Array())
    rest = [field for field in fields if field.name != "x-death"]
    if not any(field.name == "x-first-death-reason" for field in rest):
        rest += [
            Field("x-first-death-exchange", "S", message.exchange),
            Field("x-first-death-queue", "S", queue.name),
            Field("x-first-death-reason", "S", reason),
        ]
    headers = Table([Field("x-death", "A", _with_death(deaths, queue, message, reason, now)), *rest])
    properties = msgspec.structs.replace(properties, headers=headers, expiration=None)
    return Message.made(exchange, routing_key, properties, message.body)


def _with_death(deaths: Any, queue: Queue, message: Message, reason: str, now: float) -> Array:
    """The deaths with this one counted: newest first, those of one queue and reason as one."""
    older = [item for item in deaths.items if isinstance(item.value, Table)] if isinstance(deaths, Array) else []
    count = 1
    kept = []
    for item in older:
        if item.value.get("queue") == queue.name and item.value.get("reason") == reason:
            count = item.value.get("count", 0) + 1
        else:
            kept.append(item)
    fields = [
        Field("count", "l", count),
        Field("exchange", "S", message.exchange),
        Field("queue", "S", queue.name),
        Field("reason", "S", reason),
        Field("routing-keys", "A", Array([Item("S", message.routing_key)])),
        Field("time", "T", int(now)),
    ]
    if message.properties.expiration is not None:
        fields.append(Field("original-expiration", "S", message.properties.expiration))
    return Array([Item("F", Table(fields)), *kept])
