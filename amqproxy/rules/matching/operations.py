"""Operations of a command on exchanges and queues, and all places where it names them.

The model is RabbitMQ's permission checks: for example, a client that declares a queue with a dead-letter exchange must
be allowed to consume from that queue and to publish to that exchange; a passive declare needs no permission.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicGet,
    BasicPublish,
    ConnectionOpen,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Array, Table
from amqproxy.conversion.view_fields import FALLS_BACK

ALTERNATE_EXCHANGE = "alternate-exchange"
DEAD_LETTER_EXCHANGE = "x-dead-letter-exchange"
DEAD_LETTER_KEY = "x-dead-letter-routing-key"
COPIES = ("CC", "BCC")
DIRECT_REPLY_TO = "amq.rabbitmq.reply-to"
"""Pseudo-queue of direct reply-to: clients consume from it, and replies go to names that begin with it."""


class UnknownName(Enum):
    """A name that is not known in advance: the routing key of future messages."""

    KEY = "whichever a message has"


UNKNOWN = UnknownName.KEY
Name = str | UnknownName


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of a command: `act` is an act of access lists; `None` stands for an object that it is not about.

    An implied operation accompanies one that was requested by its own name; only lines that name that very queue apply.
    """

    act: str
    exchange: str | None = None
    queue: Name | None = None
    routing_key: Name | None = None
    is_implied: bool = False


# --- names


def texts(table: Table, name: str) -> list[str]:
    """Return the texts of all entries of that name; RabbitMQ uses the first of several."""
    return [text for field in table.fields if field.name == name for text in _texts_in(field.value)]


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes):
        yield value.decode("utf-8", "surrogateescape")
    elif isinstance(value, Array):
        for item in value.items:
            yield from _texts_in(item.value)


def spellings(name: str) -> tuple[str, ...]:
    """Return the name as sent, and without line breaks if it has any.

    RabbitMQ 3.10 drops them in declare, bind, unbind and delete. It keeps them in get, consume and purge, where other
    brokers may drop them. In publishes and in arguments, names have one spelling.
    """
    plain = name.replace("\r", "").replace("\n", "")
    return (name,) if plain == name else (name, plain)


def copies(command: Command) -> list[str]:
    """Return the further routing keys (CC, BCC) of a message, if its header has been received."""
    headers = None if command.header is None else command.properties.headers
    if headers is None or b"CC" not in headers.octets:  # most have none: checked without decoding
        return []
    return [text for name in COPIES for text in texts(headers, name)]


def dead_letters(declare: QueueDeclare) -> list[tuple[str, Name]]:
    """Return the exchanges and routing keys of a queue's dead letters."""
    exchanges = texts(declare.arguments, DEAD_LETTER_EXCHANGE)
    keys: list[Name] = [*texts(declare.arguments, DEAD_LETTER_KEY)] or [UNKNOWN]
    return [(exchange, key) for exchange in exchanges for key in keys]


def exchanges_of(command: Command) -> list[str]:
    """Return all exchanges that a command names."""
    method = command.method
    match method:
        case ExchangeBind() | ExchangeUnbind():
            return [*spellings(method.source), *spellings(method.destination)]
        case QueueDeclare():
            return [] if method.passive else texts(method.arguments, DEAD_LETTER_EXCHANGE)
        case ExchangeDeclare(passive=False):
            return [*spellings(method.exchange), *texts(method.arguments, ALTERNATE_EXCHANGE)]
        case ExchangeDeclare() | ExchangeDelete() | QueueBind() | QueueUnbind():
            return list(spellings(method.exchange))
        case BasicPublish() if falls_back(method):
            return [method.exchange, ""]
        case _:
            name = getattr(method, "exchange", None)
            return [] if name is None else [name]


def falls_back(publish: BasicPublish) -> bool:
    """Whether the default exchange routes the publish if its exchange does not exist.

    A 0-9-1 client can set the mark too: it may add places where rules look, and must not remove any.
    """
    return publish.reserved_1 == FALLS_BACK and publish.exchange != ""


def queues_of(command: Command) -> list[Name]:
    """Return all queues that a command names, including routing keys of the default exchange."""
    method = command.method
    match method:
        case BasicPublish(exchange=""):
            return [method.routing_key, *copies(command)]
        case BasicPublish() if falls_back(method):
            return [method.exchange, method.routing_key, *copies(command)]
        case QueueDeclare():
            found: list[Name] = [*spellings(method.queue)]
            return found if method.passive else found + [key for exchange, key in dead_letters(method) if not exchange]
        case _:
            name = getattr(method, "queue", None)
            return [] if name is None else [*spellings(name)]


def routing_keys_of(command: Command) -> list[Name]:
    """Return all routing keys that a command names or gives to messages."""
    method = command.method
    match method:
        case BasicPublish() if falls_back(method):
            return [method.routing_key, method.exchange, *copies(command)]
        case BasicPublish():
            return [method.routing_key, *copies(command)]
        case QueueDeclare():
            return [] if method.passive else [key for _, key in dead_letters(method)]
        case ExchangeDeclare():
            is_silent = method.passive or not texts(method.arguments, ALTERNATE_EXCHANGE)
            return [] if is_silent else [UNKNOWN]
        case ExchangeBind():
            return [method.routing_key, UNKNOWN]
        case _:
            name = getattr(method, "routing_key", None)
            return [] if name is None else [name]


# --- operations


def operations(command: Command) -> tuple[Operation, ...]:
    """Return all operations of a command; empty if access lists do not apply to it."""
    make = _OPERATIONS.get(type(command.method))
    return () if make is None else tuple(make(command))


def _publish(exchange: str, key: Name) -> Operation:
    return Operation(act="publish", exchange=exchange, routing_key=key, queue=None if exchange else key)


def _of_publish(command: Command) -> Iterator[Operation]:
    method: BasicPublish = command.method
    for key in (method.routing_key, *copies(command)):
        yield _publish(method.exchange, key)
    if falls_back(method):
        yield _publish("", method.routing_key)
        yield _publish("", method.exchange)
    properties: Properties | None = None if command.header is None else command.properties
    reply_to = None if properties is None else properties.reply_to
    if reply_to and not reply_to.startswith(DIRECT_REPLY_TO):
        yield Operation(act="publish", exchange="", queue=reply_to, routing_key=reply_to, is_implied=True)


def _of_queue_declare(command: Command) -> Iterator[Operation]:
    method: QueueDeclare = command.method
    if method.passive:
        return
    for queue in spellings(method.queue):
        yield Operation(act="declare", queue=queue)
    places = dead_letters(method)
    if places:
        for queue in spellings(method.queue):
            yield Operation(act="consume", queue=queue)
    for exchange, key in places:
        yield _publish(exchange, key)


def _of_exchange_declare(command: Command) -> Iterator[Operation]:
    method: ExchangeDeclare = command.method
    if method.passive:
        return
    alternates = texts(method.arguments, ALTERNATE_EXCHANGE)
    for exchange in spellings(method.exchange):
        yield Operation(act="declare", exchange=exchange)
        if alternates:
            yield Operation(act="bind", exchange=exchange)
    for alternate in alternates:
        yield _publish(alternate, UNKNOWN)


def _of_queue_binding(command: Command) -> Iterator[Operation]:
    method: QueueBind | QueueUnbind = command.method
    act = "bind" if isinstance(method, QueueBind) else "unbind"
    for queue in spellings(method.queue):
        for exchange in spellings(method.exchange):
            yield Operation(act=act, exchange=exchange, queue=queue, routing_key=method.routing_key)
        if act == "bind":
            yield Operation(act="publish", exchange="", queue=queue, routing_key=queue, is_implied=True)


def _of_exchange_binding(command: Command) -> Iterator[Operation]:
    method: ExchangeBind | ExchangeUnbind = command.method
    act = "bind" if isinstance(method, ExchangeBind) else "unbind"
    for exchange in (*spellings(method.source), *spellings(method.destination)):
        yield Operation(act=act, exchange=exchange, routing_key=method.routing_key)
    if act == "bind":
        for exchange in spellings(method.destination):
            yield _publish(exchange, UNKNOWN)


def _on_queue(act: str) -> Callable[[Command], Iterable[Operation]]:
    return lambda command: [Operation(act=act, queue=queue) for queue in spellings(command.method.queue)]


def _of_deletion(command: Command) -> Iterator[Operation]:
    method: QueueDelete | ExchangeDelete = command.method
    if isinstance(method, QueueDelete):
        for queue in spellings(method.queue):
            yield Operation(act="delete", queue=queue)
    else:
        for exchange in spellings(method.exchange):
            yield Operation(act="delete", exchange=exchange)


METHODS: dict[str, frozenset[str]] = {
    "publish": frozenset({"basic.publish", "queue.declare", "exchange.declare", "queue.bind", "exchange.bind"}),
    "consume": frozenset({"basic.consume", "queue.declare"}),
    "get": frozenset({"basic.get"}),
    "declare": frozenset({"exchange.declare", "queue.declare"}),
    "delete": frozenset({"exchange.delete", "queue.delete"}),
    "bind": frozenset({"queue.bind", "exchange.bind", "exchange.declare"}),
    "unbind": frozenset({"queue.unbind", "exchange.unbind"}),
    "purge": frozenset({"queue.purge"}),
    "connect": frozenset({"connection.open"}),
}
"""Methods that may perform each act."""

_OPERATIONS: dict[type, Callable[[Command], Iterable[Operation]]] = {
    BasicPublish: _of_publish,
    BasicConsume: _on_queue("consume"),
    BasicGet: _on_queue("get"),
    QueuePurge: _on_queue("purge"),
    QueueDeclare: _of_queue_declare,
    QueueDelete: _of_deletion,
    QueueBind: _of_queue_binding,
    QueueUnbind: _of_queue_binding,
    ExchangeDeclare: _of_exchange_declare,
    ExchangeDelete: _of_deletion,
    ExchangeBind: _of_exchange_binding,
    ExchangeUnbind: _of_exchange_binding,
    ConnectionOpen: lambda command: [Operation(act="connect")],
}
