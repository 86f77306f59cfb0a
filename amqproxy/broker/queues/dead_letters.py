"""Dead letters: their x-death headers, where they died first, and the queues that they may not enter again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.wire import Array, Field, Item, Table
from amqproxy.broker.message import DeadLetteredMessage, Message
from amqproxy.rabbitmq.profile import OLDEST, Profile

if TYPE_CHECKING:
    from amqproxy.broker.queues.queue import Queue

_by_name = attrgetter("name")

MAX_COUNT = 2**63 - 1
"""Maximum of a count in x-death."""


DEATHS = frozenset(
    ["x-death", *(f"x-{which}-death-{what}" for which in ("first", "last") for what in ("exchange", "queue", "reason"))]
)
"""Headers about deaths, which RabbitMQ 4 reads only from its own dead letters, and writes over those of clients."""

MAX_LETTERS = 1024
"""Number of cached dead-letter headers above which the cache is cleared."""

PROPERTIES_AT = 12
"""Offset of the properties in a content header's payload, after the body size."""


class DeadLetterHeader(NamedTuple):
    """Header data common to similar dead letters that one queue dropped in the same second.

    `header` is the content header of one of them, `ending` the end common to all, `passed` the queues that they may
    not enter.
    """

    header: bytes
    ending: bytes
    properties: Properties
    passed: frozenset[str]


_letters: dict[tuple[object, ...], DeadLetterHeader] = {}


def dead_lettered(
    queue: Queue, message: Message, reason: str, now: float, profile: Profile = OLDEST
) -> tuple[Message, frozenset[str]]:
    """Return `message` as `queue` dead-letters it for `reason`, and the queues that it may not enter.

    These are the queues where it was before, unless a consumer has rejected it since. `now` is in seconds since 1970.

    Dead letters come in great numbers, and most are alike: their header is written once.
    """
    settings = queue.settings
    exchange, routing_key, more_keys = settings.dead_letter_exchange or "", message.routing_key, message.more_keys
    if settings.dead_letter_routing_key is not None:
        routing_key, more_keys = settings.dead_letter_routing_key, ()
    start, rest = message.header[:PROPERTIES_AT], message.header[PROPERTIES_AT:]
    is_letter = isinstance(message, DeadLetteredMessage)
    key = (
        rest,
        queue.name,
        reason,
        int(now),
        message.exchange,
        message.routing_key,
        settings.dead_letter_routing_key,
        is_letter,
        profile.version,
    )
    letter = _letters.get(key)
    if letter is None:
        letter = _written(queue, message, reason, now, profile)
        if len(_letters) >= MAX_LETTERS:
            _letters.clear()
        _letters[key] = letter
    header = letter.header
    if not header.startswith(start):
        header = start + letter.ending
        _letters[key] = letter._replace(header=header)
    made = DeadLetteredMessage(exchange, routing_key, header, message.body, letter.properties, more_keys)
    was_delivered = reason in ("rejected", "delivery_limit")
    if isinstance(message, DeadLetteredMessage):
        was_delivered = was_delivered or message.was_delivered
    made.was_delivered = profile.letters_redelivered and was_delivered
    return made, letter.passed


def _written(queue: Queue, message: Message, reason: str, now: float, profile: Profile) -> DeadLetterHeader:
    properties = message.properties
    fields = list(properties.headers.fields) if properties.headers else []
    if not profile.reads_deaths and not isinstance(message, DeadLetteredMessage):
        fields = [field for field in fields if field.name not in DEATHS]
    fields = _with_death(fields, queue, message, reason, now, profile)
    if profile.drops_cc and queue.settings.dead_letter_routing_key is not None:
        fields = [field for field in fields if field.name != "CC"]
    properties = msgspec.structs.replace(properties, headers=Table(fields), expiration=None)
    header = ContentHeader(len(message.body), properties).encode()
    return DeadLetterHeader(header, header[PROPERTIES_AT:], properties, passed(fields, reason))


def passed(fields: Iterable[Field], reason: str) -> frozenset[str]:
    """Return the queues that a dead letter with these headers may not enter."""
    deaths = [] if reason == "rejected" else _deaths(fields)
    since = takewhile(lambda death: death.get("reason") != "rejected", deaths)
    return frozenset(name for death in since if isinstance(name := death.get("queue"), str))


def _deaths(fields: Iterable[Field]) -> list[Table]:
    """Return the entries of x-death, the newest first."""
    return [item.value for item in _items(fields) if isinstance(item.value, Table)]


def _items(fields: Iterable[Field]) -> Sequence[Item]:
    """Return the items of x-death."""
    value = next((field.value for field in fields if field.name == "x-death"), None)
    return value.items if isinstance(value, Array) else ()


def _with_death(
    fields: list[Field], queue: Queue, message: Message, reason: str, now: float, profile: Profile
) -> list[Field]:
    """Return the headers with this death counted in front, merged with an earlier one of the same queue and reason."""
    is_first = not any(field.name == "x-death" for field in fields)
    older: Table | None = None
    others: list[Item] = []
    for item in _merged(_items(fields)) if profile.reads_deaths else _items(fields):
        if older is None and _kind(item) == (queue.name, reason):
            older = item.value
        else:
            others.append(item)
    if older is not None:
        known = [field for field in older.fields if field.name != "count"]
        counted = Field("count", "l", _next_count(older.get("count", 0)))
        if profile.reads_deaths:
            death = [*known, counted]
        else:  # RabbitMQ 4 counts in place
            death = [counted if field.name == "count" else field for field in older.fields]
    else:
        death = [Field("count", "l", 1), *_death(fields, queue, message, reason, now)]
        if profile.last_death:  # RabbitMQ 4 puts it in front
            death.sort(key=lambda each: each.name != "original-expiration")
    if profile.reads_deaths and any(field.name == "x-death" and isinstance(field.value, Array) for field in fields):
        death.sort(key=_by_name)
    deaths = Array([Item("F", Table(death)), *others])
    new = {"x-death": Field("x-death", "A", deaths)}
    if is_first:
        new["x-first-death-exchange"] = Field("x-first-death-exchange", "S", message.exchange)
        new["x-first-death-queue"] = Field("x-first-death-queue", "S", queue.name)
        new["x-first-death-reason"] = Field("x-first-death-reason", "S", reason)
    if profile.last_death:
        new["x-last-death-exchange"] = Field("x-last-death-exchange", "S", message.exchange)
        new["x-last-death-queue"] = Field("x-last-death-queue", "S", queue.name)
        new["x-last-death-reason"] = Field("x-last-death-reason", "S", reason)
    return sorted([*new.values(), *(field for field in fields if field.name not in new)], key=_by_name)


def _merged(items: Sequence[Item]) -> Sequence[Item]:
    """Return the deaths merged by queue and reason, as RabbitMQ merges them.

    If there are several, the first of each kind is kept, in the reverse of their order, and its count becomes the
    number of its kind if it has none. Items that are not deaths stay.
    """
    if len(items) < 2:
        return items
    kinds: dict[Any, list[Item]] = {}
    for item in items:
        kinds.setdefault(_kind(item), []).append(item)
    return [_counted(like[0], len(like)) for like in reversed(kinds.values())]


def _kind(item: Item) -> Any:
    """Return the key that two deaths to be merged have in common."""
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
    """Return the incremented count, bounded by `MAX_COUNT`; a client's value that is not a number is ignored."""
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
