"""What a message looks like once a queue has let it go (x-death, and where it died first), and where it may not go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from amqproxy.amqp091.wire import Array, Field, Item, Table
from amqproxy.broker.message import Message

if TYPE_CHECKING:
    from amqproxy.broker.queue import Queue

_by_name = attrgetter("name")

MAX_COUNT = 2**63 - 1
"""How far x-death counts."""


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
    return [item.value for item in _items(fields) if isinstance(item.value, Table)]


def _items(fields: Iterable[Field]) -> Sequence[Item]:
    """What is in x-death."""
    value = next((field.value for field in fields if field.name == "x-death"), None)
    return value.items if isinstance(value, Array) else ()


def _with_death(fields: list[Field], queue: Queue, message: Message, reason: str, now: float) -> list[Field]:
    """Headers with this death counted: in front, and as one with that of the same queue and reason before it."""
    is_first = not any(field.name == "x-death" for field in fields)
    older: Table | None = None
    others: list[Item] = []
    for item in _merged(_items(fields)):
        if older is None and _kind(item) == (queue.name, reason):
            older = item.value
        else:
            others.append(item)
    if older is not None:
        known = [field for field in older.fields if field.name != "count"]
        death = [*known, Field("count", "l", _next_count(older.get("count", 0)))]
    else:
        death = [Field("count", "l", 1), *_death(fields, queue, message, reason, now)]
    if any(field.name == "x-death" and isinstance(field.value, Array) for field in fields):
        death.sort(key=_by_name)
    deaths = Array([Item("F", Table(death)), *others])
    new = {"x-death": Field("x-death", "A", deaths)}
    if is_first:
        new["x-first-death-exchange"] = Field("x-first-death-exchange", "S", message.exchange)
        new["x-first-death-queue"] = Field("x-first-death-queue", "S", queue.name)
        new["x-first-death-reason"] = Field("x-first-death-reason", "S", reason)
    return sorted([*new.values(), *(field for field in fields if field.name not in new)], key=_by_name)


def _merged(items: Sequence[Item]) -> Sequence[Item]:
    """Deaths by queue and reason, as RabbitMQ merges them: where there are several, the first of each kind is kept, in
    the reverse of their order, and gets the number of its kind for a count if it has none. What is no death stays.
    """
    if len(items) < 2:
        return items
    kinds: dict[Any, list[Item]] = {}
    for item in items:
        kinds.setdefault(_kind(item), []).append(item)
    return [_counted(like[0], len(like)) for like in reversed(kinds.values())]


def _kind(item: Item) -> Any:
    """What makes two deaths one."""
    if not isinstance(item.value, Table):
        return id(item)
    queue, reason = item.value.get("queue"), item.value.get("reason")
    return (queue, reason) if _is_text(queue) and _is_text(reason) else (repr(queue), repr(reason), None)


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _counted(item: Item, count: int) -> Item:
    if not isinstance(item.value, Table) or "count" in item.value:
        return item
    return Item("F", Table(sorted([Field("count", "l", count), *item.value.fields], key=_by_name)))


def _next_count(count: object) -> int:
    """One more, as far as a count goes. What a client wrote may be no number, and says nothing then."""
    return min(max(count, -MAX_COUNT), MAX_COUNT - 1) + 1 if isinstance(count, int) else 1


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
