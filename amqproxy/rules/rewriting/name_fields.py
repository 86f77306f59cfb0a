"""Fields that hold names of exchanges, queues and the like: in methods, arguments, properties and reply texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from msgspec.structs import replace

from amqproxy.amqp091.errors import cut_reply_text
from amqproxy.amqp091.methods import BY_NAME, ExchangeDeclare, Method
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Array, Field, Item, Table
from amqproxy.conversion.view_fields import BOUND_KEY, BOUND_QUEUE, QueueQueryOk


class NameKind(StrEnum):
    """Kind of a named object."""

    EXCHANGE = "exchange"
    QUEUE = "queue"
    ROUTING_KEY = "routing_key"
    CONSUMER_TAG = "consumer_tag"
    VHOST = "vhost"
    USER = "user"


Rename = Callable[[NameKind, str], str]
"""Maps a name of a kind to another name, or to itself."""

FIELDS: dict[str, tuple[tuple[str, NameKind], ...]] = {
    name: places
    for name, method in BY_NAME.items()
    if (
        places := tuple(
            (field, noun)
            for field, noun in (
                ("exchange", NameKind.EXCHANGE),
                ("source", NameKind.EXCHANGE),
                ("destination", NameKind.EXCHANGE),
                ("queue", NameKind.QUEUE),
                ("routing_key", NameKind.ROUTING_KEY),
                ("consumer_tag", NameKind.CONSUMER_TAG),
                ("virtual_host", NameKind.VHOST),
            )
            if field in method.__struct_fields__
        )
    )
}
"""Fields with names, by method. Routing keys may name queues: see `renamed`."""

MESSAGES = frozenset(name for name, method in BY_NAME.items() if method.carries_content)
CLOSES = frozenset({"channel.close", "connection.close"})
"""Methods whose reply texts may name the object at fault."""

_EXCHANGE_ARGUMENTS = {"exchange.declare": "alternate-exchange", "queue.declare": "x-dead-letter-exchange"}
_DEAD_LETTER_KEY = "x-dead-letter-routing-key"
_COPIES = ("CC", "BCC")
_DEATH_NAMES = {
    f"x-{which}-death-{name}": noun
    for which in ("first", "last")
    for name, noun in (("exchange", NameKind.EXCHANGE), ("queue", NameKind.QUEUE))
}


def _key_noun(exchange: str) -> NameKind:
    """Return the kind of a routing key: of a queue with the default exchange (section 3.1.3.1)."""
    return NameKind.ROUTING_KEY if exchange else NameKind.QUEUE


def renamed(method: Method, rename: Rename, *, is_back: bool = False, in_arguments: bool = True) -> Method:
    """Return the method with all names mapped, or the same object.

    The meaning of a routing key depends on the exchange, by the client's name: the old name, or on the way back the new
    one.
    """
    changes: dict[str, Any] = {}
    for field, noun in FIELDS.get(method.name, ()):
        name = getattr(method, field)
        if noun is NameKind.ROUTING_KEY and method.name in MESSAGES:
            exchange: str = method.exchange  # type: ignore[attr-defined]
            noun = _key_noun(changes.get("exchange", exchange) if is_back else exchange)
        new = rename(noun, name)
        if new != name:
            changes[field] = new
    if isinstance(method, QueueQueryOk) and method.alternate_exchange:
        new = rename(NameKind.EXCHANGE, method.alternate_exchange)
        if new != method.alternate_exchange:
            changes["alternate_exchange"] = new
    if in_arguments and method.name in _EXCHANGE_ARGUMENTS:
        arguments = method.arguments  # type: ignore[attr-defined]
        new_arguments = _renamed_arguments(arguments, _EXCHANGE_ARGUMENTS[method.name], rename)
        if isinstance(method, ExchangeDeclare) and method.passive:
            new_arguments = _renamed_question(new_arguments, rename)
        if new_arguments is not arguments:
            changes["arguments"] = new_arguments
    return replace(method, **changes) if changes else method


def _renamed_arguments(arguments: Table, exchange_argument: str, rename: Rename) -> Table:
    exchange = arguments.get(exchange_argument)
    if not isinstance(exchange, str):
        return arguments
    names = {exchange_argument: rename(NameKind.EXCHANGE, exchange)}
    key = arguments.get(_DEAD_LETTER_KEY)
    if isinstance(key, str):
        names[_DEAD_LETTER_KEY] = rename(_key_noun(exchange), key)
    return _with_texts(arguments, names)


def _renamed_question(arguments: Table, rename: Rename) -> Table:
    """Return the arguments of the view of an exchange.bound, with queue and key mapped."""
    kinds = {BOUND_QUEUE: NameKind.QUEUE, BOUND_KEY: NameKind.ROUTING_KEY}
    found = {name: arguments.get(name) for name in kinds}
    return _with_texts(
        arguments, {name: rename(kinds[name], value) for name, value in found.items() if isinstance(value, str)}
    )


def _with_texts(table: Table, texts: Mapping[str, str]) -> Table:
    """Replace texts by name and keep their types; return the same object if nothing changes."""
    if all(table[name] == text for name, text in texts.items()):
        return table
    return Table(
        field._replace(value=texts[field.name]) if field.name in texts and field.type == "S" else field
        for field in table.fields
    )


# --- messages


def renamed_properties(
    properties: Properties,
    exchange: str,
    rename: Rename,
    *,
    reply_to: bool = True,
    copies: bool = True,
    deaths: bool = True,
) -> Properties:
    """Return the properties of a message for `exchange` with names mapped, or the same object.

    `reply_to` is a queue name by convention of the specification. `copies` are the headers CC and BCC of RabbitMQ's
    sender-selected distribution; `deaths` are its dead-lettering headers.
    """
    changes: dict[str, Any] = {}
    if reply_to and properties.reply_to:
        new = rename(NameKind.QUEUE, properties.reply_to)
        if new != properties.reply_to:
            changes["reply_to"] = new
    headers = properties.headers
    if headers and (copies or deaths):
        fields = [_renamed_header(field, exchange, rename, copies, deaths) for field in headers.fields]
        if any(new is not old for new, old in zip(fields, headers.fields, strict=True)):
            changes["headers"] = Table(fields)
    return replace(properties, **changes) if changes else properties


def _renamed_header(field: Field, exchange: str, rename: Rename, copies: bool, deaths: bool) -> Field:
    name, value = field.name, field.value
    if copies and name in _COPIES and isinstance(value, Array):
        return _with(field, _renamed_texts(value, _key_noun(exchange), rename))
    if deaths and name in _DEATH_NAMES and isinstance(value, str):
        return _with(field, rename(_DEATH_NAMES[name], value))
    if deaths and name == "x-death" and isinstance(value, Array):
        return _with(field, Array(_renamed_death(item, rename) for item in value.items))
    return field


def _with(field: Field, value: Any) -> Field:
    return field if value == field.value else field._replace(value=value)


def _renamed_texts(texts: Array, noun: NameKind, rename: Rename) -> Array:
    return Array(
        Item(item.type, rename(noun, item.value)) if isinstance(item.value, str) else item for item in texts.items
    )


def _renamed_death(item: Item, rename: Rename) -> Item:
    """Map the names in one entry of x-death: the queue, exchange and routing keys of a dead letter."""
    death = item.value
    if not isinstance(death, Table):
        return item
    exchange = death.get("exchange")
    fields = []
    for field in death.fields:
        if field.name in ("exchange", "queue") and isinstance(field.value, str):
            field = _with(field, rename(NameKind(field.name), field.value))
        elif field.name == "routing-keys" and isinstance(field.value, Array) and isinstance(exchange, str):
            field = _with(field, _renamed_texts(field.value, _key_noun(exchange), rename))
        fields.append(field)
    return Item(item.type, Table(fields))


# --- the texts of closes

_QUOTED = re.compile(r"\b(exchange|queue(?: name)?|vhost|user|consumer tag|topic|binding) '([^']*)'")
_UNQUOTED_VHOST = re.compile(r"\bvhost ([^'\s]\S*) not found")
_NOUNS = {
    "queue name": NameKind.QUEUE,
    "consumer tag": NameKind.CONSUMER_TAG,
    "topic": NameKind.ROUTING_KEY,
    "binding": NameKind.ROUTING_KEY,
}


def renamed_text(text: str, rename: Rename) -> str:
    """Map the names in a RabbitMQ reply text, and cut it to the maximum length."""

    def quoted(found: re.Match[str]) -> str:
        noun = _NOUNS.get(found[1]) or NameKind(found[1])
        return f"{found[1]} '{rename(noun, found[2])}'"

    new = _QUOTED.sub(quoted, text)
    return cut_reply_text(_UNQUOTED_VHOST.sub(lambda found: f"vhost {rename(NameKind.VHOST, found[1])} not found", new))
