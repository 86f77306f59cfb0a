"""One virtual host: its exchanges, queues and bindings, and where a message goes among them."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

from amqproxy.amqp091.errors import (
    AccessRefused,
    CommandInvalid,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
)
from amqproxy.amqp091.wire import Table
from amqproxy.broker.dead_letters import dead_lettered
from amqproxy.broker.exchange import Binding, Exchange
from amqproxy.broker.exchanges import TYPES
from amqproxy.broker.message import Message
from amqproxy.broker.queue import Entry, Queue

if TYPE_CHECKING:
    from amqproxy.broker.link import Link

MAX_ROUTES = 65_536
"""Routes remembered; beyond, all are forgotten and found again."""

PREDECLARED = {
    "": "direct",
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.headers": "headers",
    "amq.match": "headers",
    "amq.rabbitmq.trace": "topic",
    "amq.topic": "topic",
}


class VirtualHost:
    """All that one name space holds. Errors are `ProtocolError`s with RabbitMQ's codes and texts."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.queues: dict[str, Queue] = {}
        self.exchanges: dict[str, Exchange] = {
            exchange: TYPES[type_](exchange, durable=True, internal=exchange == "amq.rabbitmq.trace")
            for exchange, type_ in PREDECLARED.items()
        }
        self.deleted: Callable[[Queue], None] = lambda queue: None
        self._routes: dict[tuple[str, str], tuple[Queue, ...]] = {}

    # --- finding

    def exchange(self, name: str) -> Exchange:
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise NotFound(f"no exchange '{name}' in vhost '{self.name}'")
        return exchange

    def queue(self, name: str, link: Link | None = None) -> Queue:
        """A queue that `link` may use."""
        queue = self.queues.get(name)
        if queue is None:
            raise NotFound(f"no queue '{name}' in vhost '{self.name}'")
        if queue.exclusive_to is not None and queue.exclusive_to is not link:
            raise ResourceLocked(
                f"cannot obtain exclusive access to locked queue '{name}' in vhost '{self.name}'. "
                "It could be originally declared on another connection or the exclusive property value "
                "does not match that of the original declaration."
            )
        return queue

    # --- exchanges

    def declare_exchange(
        self, name: str, type_: str, *, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> Exchange:
        if type_ not in TYPES:
            raise CommandInvalid(f"unknown exchange type '{type_}'")
        exchange = self.exchanges.get(name)
        if exchange is not None:
            self._check_equivalent(
                f"exchange '{name}'",
                [
                    ("type", type_, exchange.type),
                    ("durable", durable, exchange.durable),
                    ("auto_delete", auto_delete, exchange.auto_delete),
                    ("internal", internal, exchange.internal),
                ],
            )
            self._check_arguments(f"exchange '{name}'", ("alternate-exchange",), arguments, exchange.arguments)
            return exchange
        self._check_name("exchange", name)
        exchange = TYPES[type_](name, durable=durable, auto_delete=auto_delete, internal=internal, arguments=arguments)
        self.exchanges[name] = exchange
        self._forget_routes()
        return exchange

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        exchange = self.exchanges.get(name)
        if name.startswith("amq.") or name == "":
            raise AccessRefused(
                "operation not permitted on the default exchange"
                if name == ""
                else f"exchange name '{name}' contains reserved prefix 'amq.*'"
            )
        if exchange is None:
            return
        if if_unused and exchange.bindings:
            raise PreconditionFailed(f"exchange '{name}' in vhost '{self.name}' in use")
        del self.exchanges[name]
        self._unbind_all(exchange)
        self._forget_routes()

    # --- queues

    def declare_queue(
        self, name: str, link: Link, *, durable: bool, exclusive: bool, auto_delete: bool, arguments: Table, now: float
    ) -> Queue:
        existing = self.queues.get(name)
        if existing is not None:
            self.queue(name, link)
            self._check_equivalent(
                f"queue '{name}'",
                [
                    ("durable", durable, existing.durable),
                    ("auto_delete", auto_delete, existing.auto_delete),
                    ("exclusive", exclusive, existing.exclusive_to is not None),
                ],
            )
            self._check_arguments(f"queue '{name}'", QUEUE_ARGUMENTS, arguments, existing.arguments)
            existing.touch(now)
            return existing
        if name:
            self._check_name("queue", name)
        else:
            name = "amq.gen-" + secrets.token_urlsafe(16)
        queue = Queue(
            name,
            self,
            durable=durable,
            auto_delete=auto_delete,
            exclusive_to=link if exclusive else None,
            arguments=arguments,
            now=now,
        )
        self.queues[name] = queue
        self._forget_routes()
        return queue

    def delete_queue(self, name: str, link: Link | None, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue that may be there; how many messages were ready in it."""
        if name not in self.queues:
            return 0
        queue = self.queue(name, link)
        if if_unused and queue.consumers:
            raise PreconditionFailed(f"queue '{name}' in vhost '{self.name}' in use")
        if if_empty and queue.message_count:
            raise PreconditionFailed(f"queue '{name}' in vhost '{self.name}' is not empty")
        return self.remove_queue(queue)

    def remove_queue(self, queue: Queue) -> int:
        """Take a queue out, its bindings and consumers with it; how many messages were ready in it."""
        if queue.is_deleted:
            return 0
        queue.is_deleted = True
        count = queue.message_count
        del self.queues[queue.name]
        self._unbind_all(queue)
        self._forget_routes()
        for consumer in list(queue.consumers):
            consumer.channel.queue_deleted(consumer)
        queue.consumers.clear()
        self.deleted(queue)
        return count

    def became_unused(self, queue: Queue) -> None:
        self.remove_queue(queue)

    # --- bindings

    def bind(self, source: Exchange, destination: Queue | Exchange, routing_key: str, arguments: Table) -> None:
        if source.name == "" or destination.name == "":
            raise AccessRefused("operation not permitted on the default exchange")
        source.bind(Binding(destination, routing_key, arguments))
        self._forget_routes()

    def unbind(self, source: Exchange, destination: Queue | Exchange, routing_key: str, arguments: Table) -> None:
        if source.name == "" or destination.name == "":
            raise AccessRefused("operation not permitted on the default exchange")
        if source.unbind(Binding(destination, routing_key, arguments)):
            self._forget_routes()
            self._delete_if_unused(source)

    def _unbind_all(self, destination: Queue | Exchange) -> None:
        for exchange in list(self.exchanges.values()):
            bound = [binding for binding in exchange.bindings.values() if binding.destination is destination]
            for binding in bound:
                exchange.unbind(binding)
            if bound:
                self._delete_if_unused(exchange)

    def _delete_if_unused(self, exchange: Exchange) -> None:
        if exchange.auto_delete and not exchange.bindings and exchange.name in self.exchanges:
            del self.exchanges[exchange.name]
            self._unbind_all(exchange)

    # --- routing

    def route(self, exchange: Exchange, message: Message) -> tuple[Queue, ...]:
        """The queues that a message goes to from an exchange, each once."""
        key = (exchange.name, message.routing_key)
        queues = self._routes.get(key)
        if queues is None:
            queues, may_remember = self._find_route(exchange, message)
            if may_remember:
                if len(self._routes) >= MAX_ROUTES:
                    self._routes.clear()
                self._routes[key] = queues
        return queues

    def _find_route(self, first: Exchange, message: Message) -> tuple[tuple[Queue, ...], bool]:
        if first.name == "":
            queue = self.queues.get(message.routing_key)
            return (() if queue is None else (queue,)), True
        found: dict[Queue, None] = {}
        seen = {first}
        waiting = [first]
        may_remember = True
        while waiting:
            exchange = waiting.pop()
            may_remember = may_remember and exchange.routes_by_key_only
            destinations = list(exchange.route(message.routing_key, message))
            if not destinations and exchange.alternate in self.exchanges:
                destinations = [self.exchanges[exchange.alternate]]
            for destination in destinations:
                if isinstance(destination, Queue):
                    found[destination] = None
                elif destination not in seen:
                    seen.add(destination)
                    waiting.append(destination)
        return tuple(found), may_remember

    def _forget_routes(self) -> None:
        self._routes.clear()

    def dead_letter(self, queue: Queue, entry: Entry, reason: str, now: float) -> None:
        """Publish what a queue has let go to its dead-letter exchange, if it has one."""
        name = queue.arguments.get("x-dead-letter-exchange")
        exchange = self.exchanges.get(name) if isinstance(name, str) else None
        if exchange is None:
            return
        message = dead_lettered(queue, entry.message, reason, now, exchange.name)
        for target in self.route(exchange, message):
            target.publish(message, now)

    # --- checking

    def _check_name(self, kind: str, name: str) -> None:
        if name.startswith("amq."):
            raise AccessRefused(f"{kind} name '{name}' contains reserved prefix 'amq.*'")

    def _check_equivalent(self, what: str, pairs: list[tuple[str, object, object]]) -> None:
        for name, received, current in pairs:
            if received != current:
                raise PreconditionFailed(
                    f"inequivalent arg '{name}' for {what} in vhost '{self.name}': "
                    f"received '{_erlang(received)}' but current is '{_erlang(current)}'"
                )

    def _check_arguments(self, what: str, names: tuple[str, ...], received: Table, current: Table) -> None:
        for name in names:
            if received.get(name) != current.get(name):
                raise PreconditionFailed(
                    f"inequivalent arg '{name}' for {what} in vhost '{self.name}': "
                    f"received {_described(received, name)} but current is {_described(current, name)}"
                )


QUEUE_ARGUMENTS = (
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-overflow",
    "x-queue-mode",
    "x-queue-type",
    "x-single-active-consumer",
)


def _erlang(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_TYPE_NAMES = {
    "t": "bool",
    "b": "byte",
    "B": "unsignedbyte",
    "s": "short",
    "u": "unsignedshort",
    "I": "signedint",
    "i": "unsignedint",
    "l": "long",
    "S": "longstr",
    "d": "double",
    "f": "float",
    "T": "timestamp",
}


def _described(table: Table, name: str) -> str:
    for field in table.fields:
        if field.name == name:
            return f"the value '{_erlang(field.value)}' of type '{_TYPE_NAMES.get(field.type, field.type)}'"
    return "none"
