"""x-delayed-message: holds a message for its x-delay, in milliseconds, then routes it like another exchange type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from amqproxy.amqp091.errors import PreconditionFailed
from amqproxy.amqp091.wire import Field, Table
from amqproxy.broker.exchanges.exchange import Binding, Exchange
from amqproxy.broker.message import Message

if TYPE_CHECKING:
    from amqproxy.broker.queues.queue import Queue

MAX_DELAY = 2**32 - 1


class DelayedMessageExchange(Exchange):
    """Delayed exchange that routes as the type that x-delayed-type names, one of its broker's `types`."""

    type = "x-delayed-message"
    types: ClassVar[dict[str, Any]]
    routes_by_key_only = False

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._inner: Exchange = self.types[self.arguments["x-delayed-type"]](name, **options)
        self._inner.bindings = self.bindings

    @classmethod
    def check(cls, what: str, arguments: Table) -> None:
        name = arguments.get("x-delayed-type")
        if name not in cls.types or name == cls.type:
            raise PreconditionFailed("Invalid argument, 'x-delayed-type' must be an existing exchange type")
        cls.types[name].check(what, arguments)

    def check_binding(self, binding: Binding) -> None:
        self._inner.check_binding(binding)

    def added(self, binding: Binding) -> None:
        self._inner.added(binding)

    def removed(self, binding: Binding) -> None:
        self._inner.removed(binding)

    def route(self, routing_key: str, message: Message) -> Iterable[Queue | Exchange]:
        found = self._inner.route(routing_key, message)
        self.visited = self._inner.visited
        return found

    def delay(self, message: Message) -> int:
        headers = message.properties.headers
        value = headers.get("x-delay") if headers else None
        return min(value, MAX_DELAY) if isinstance(value, int) and value > 0 else 0


def released(message: Message) -> Message:
    """Return a delayed message for routing: its negated x-delay shows that it must not be delayed again."""
    properties = message.properties
    headers = properties.headers or Table()
    fields = [Field(each.name, "l", -each.value) if each.name == "x-delay" else each for each in headers.fields]
    properties = msgspec.structs.replace(properties, headers=Table(fields))
    return Message.made(message.exchange, message.routing_key, properties, message.body, message.more_keys)
