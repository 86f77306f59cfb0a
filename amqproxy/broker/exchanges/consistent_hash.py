"""x-consistent-hash: each message goes to one binding, chosen by the hash of its routing key, a header or a property.

The binding's key is its weight. When a binding is added or removed, few messages change their destination.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from amqproxy.amqp091.errors import PreconditionFailed
from amqproxy.amqp091.wire import Table
from amqproxy.broker.arguments import TYPE_NAMES, field
from amqproxy.broker.exchanges.exchange import Binding, Exchange

if TYPE_CHECKING:
    from amqproxy.broker.message import Message
    from amqproxy.broker.queues.queue import Queue

PROPERTIES = ("correlation_id", "message_id", "timestamp")
MAX_WEIGHT = 10_000
"""Maximum number of places for one binding; each costs memory."""


class ConsistentHashExchange(Exchange):
    """Consistent-hash exchange: `_places` lists a destination once per unit of its weight, and a hash picks one."""

    type = "x-consistent-hash"

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._header = self.arguments.get("hash-header")
        self._property = self.arguments.get("hash-property")
        self.routes_by_key_only = self._header is None and self._property is None
        self._places: list[Queue | Exchange] = []
        self._chosen: dict[Queue | Exchange, Binding] = {}

    @classmethod
    def check(cls, what: str, arguments: Table) -> None:
        super().check(what, arguments)
        if "hash-header" in arguments and "hash-property" in arguments:
            raise PreconditionFailed("hash-header and hash-property are mutually exclusive")
        for name in ("hash-header", "hash-property"):
            found = field(arguments, name)
            if found is not None and found.type != "S":
                raise PreconditionFailed(f"invalid type '{TYPE_NAMES[found.type]}' for arg '{name}' in {what}")
        wanted = arguments.get("hash-property")
        if wanted is not None and wanted not in PROPERTIES:
            raise PreconditionFailed(f"Unsupported property: {wanted}")

    def check_binding(self, binding: Binding) -> None:
        try:
            weight = int(binding.routing_key)
        except ValueError:
            shown = f'"{binding.routing_key}"' if binding.routing_key else ""
            raise PreconditionFailed(f"The binding key must be an integer: <<{shown}>>") from None
        if weight <= 0:
            raise PreconditionFailed("The binding key must be greater than 0")
        if weight > MAX_WEIGHT:
            raise PreconditionFailed(f"The binding key must not be greater than {MAX_WEIGHT}")

    def added(self, binding: Binding) -> None:
        """Add places for the first binding to a destination, which sets its weight; RabbitMQ ignores others, too."""
        if binding.destination not in self._chosen:
            self._chosen[binding.destination] = binding
            self._places += [binding.destination] * int(binding.routing_key)

    def removed(self, binding: Binding) -> None:
        if self._chosen.get(binding.destination) is binding:
            del self._chosen[binding.destination]
            self._places = [each for each in self._places if each is not binding.destination]
            for other in self.bindings.values():
                self.added(other)

    def route(self, routing_key: str, message: Message) -> Iterable[Queue | Exchange]:
        if not self._places:
            return ()
        value: object = routing_key
        if self._header is not None:
            value = (message.properties.headers or {}).get(self._header)
        elif self._property is not None:
            value = getattr(message.properties, self._property)
        digest = blake2b(repr(value).encode("utf-8", "surrogateescape"), digest_size=8).digest()
        return (self._places[jump(int.from_bytes(digest), len(self._places))],)


def jump(key: int, count: int) -> int:
    """Return the place of a 64-bit key among `count`, by Lamping and Veach's jump consistent hash."""
    place, following = -1, 0
    while following < count:
        place = following
        key = (key * 2862933555777941757 + 1) & 0xFFFF_FFFF_FFFF_FFFF
        following = int((place + 1) * ((1 << 31) / ((key >> 33) + 1)))
    return place
