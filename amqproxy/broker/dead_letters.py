"""What a message looks like once a queue has let it go (x-death, and where it died first), and where it may not go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from amqproxy.amqp091.wire import Array, Field, Item, Table
from amqproxy.broker.message import Message

if TYPE_CHECKING:
    from amqproxy.broker.queue import Queue

_by_name = attrgetter("name")


def dead_lettered(queue: Queue, message: Message, reason: str, now: float) -> Message:
    """`message` as `queue` passes it on to its dead-letter exchange, for `reason`. `now` is in seconds since 1970."""
    settings = queue.settings
    properties = message.properties
    fields = list(properties.headers.fields) if properties.headers else []
    fields = _with_death(fields, queue, message, reason, now)
    routing_key, more_keys = message.routing_key, message.more_keys
    if settings.dead_letter_routing_key is not None:
        routing_key, more_keys = settings.dead_letter_routing_key, ()
        fields = [field for field in fields if field.name != "CC"]
    properties = msgspec.structs.replace(properties, headers=Table(fields), expiration=None)
    return Message.made(settings.dead_letter_exchange or "", routing_key, properties, message.body, more_keys)


def without_cycles(queues: Iterable[Queue], message: Message, reason: str) -> Sequence[Queue]:
    """The queues that a dead letter may go to: not one where it was before, unless somebody rejected it since."""
    if reason == "rejected":
        return list(queues)
    deaths = _deaths(message.properties.headers.fields if message.properties.headers else ())
    return [queue for queue in queues if not _is_cycle(queue.name, deaths)]


def _is_cycle(name: str, deaths: list[Table]) -> bool:
    for death in deaths:
        if death.get("reason") == "rejected":
            return False
        if death.get("queue") == name:
            return True
    return False


def _deaths(fields: Iterable[Field]) -> list[Table]:
    """The entries of x-death, the newest first."""
    value = next((field.value for field in fields if field.name == "x-death"), None)
    return [item.value for item in value.items if isinstance(item.value, Table)] if isinstance(value, Array) else []


def _with_death(fields: list[Field], queue: Queue, message: Message, reason: str, now: float) -> list[Field]:
    """Headers with this death counted: in front, and as one with those of the same queue and reason before it.

    Of these the first is told in full, and the others only by their count.
    """
    is_first = not any(field.name == "x-death" for field in fields)
    mine: list[Table] = []
    others: list[Table] = []
    for each in _deaths(fields):
        is_mine = each.get("queue") == queue.name and each.get("reason") == reason
        (mine if is_mine else others).append(each)
    if mine:
        counts = [each.get("count", 1) for each in mine]
        count = sum(each for each in counts if isinstance(each, int)) + 1
        older = [field for field in mine[0].fields if field.name != "count"]
        death = sorted([*older, Field("count", "l", count)], key=_by_name)
    else:
        death = [Field("count", "l", 1), *_death(fields, queue, message, reason, now)]
    deaths = Array([Item("F", Table(death)), *(Item("F", each) for each in others)])
    new = {"x-death": Field("x-death", "A", deaths)}
    if is_first:
        new["x-first-death-exchange"] = Field("x-first-death-exchange", "S", message.exchange)
        new["x-first-death-queue"] = Field("x-first-death-queue", "S", queue.name)
        new["x-first-death-reason"] = Field("x-first-death-reason", "S", reason)
    return sorted([*new.values(), *(field for field in fields if field.name not in new)], key=_by_name)


def _death(fields: list[Field], queue: Queue, message: Message, reason: str, now: float) -> list[Field]:
    cc = next((field.value for field in fields if field.name == "CC"), ())
    copies = [item for item in cc.items if item.type == "S"] if isinstance(cc, Array) else []
    death = [
        Field("reason", "S", reason),
        Field("queue", "S", queue.name),
        Field("time", "T", int(now)),
        Field("exchange", "S", message.exchange),
        Field("routing-keys", "A", Array([Item("S", message.routing_key), *copies])),
    ]
    if message.properties.expiration is not None:
        death.append(Field("original-expiration", "S", message.properties.expiration))
    return death
