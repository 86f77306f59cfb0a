"""The base class of all exchange types: name, declared properties, and bindings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from amqproxy.amqp091.errors import PreconditionFailed
from amqproxy.amqp091.wire import Table
from amqproxy.broker.arguments import TYPE_NAMES, field
from amqproxy.broker.message_counts import MessageCounts

if TYPE_CHECKING:
    from amqproxy.broker.access.users import User
    from amqproxy.broker.message import Message
    from amqproxy.broker.queues.queue import Queue

NO_ARGUMENTS = Table()


class Binding(NamedTuple):
    """Binding from the exchange that holds it to a queue or another exchange."""

    destination: Queue | Exchange
    routing_key: str
    arguments: Table


class Destinations(dict["Queue | Exchange", int]):
    """Destinations of bindings, with the number of bindings to each."""

    def add(self, destination: Queue | Exchange) -> None:
        self[destination] = self.get(destination, 0) + 1

    def drop(self, destination: Queue | Exchange) -> None:
        count = self.pop(destination) - 1
        if count:
            self[destination] = count


class Exchange:
    """One exchange; each subclass is an exchange type and decides which bindings match a message.

    `routes_by_key_only` is true if only the routing key decides, so that routes may be cached. `policy` is the
    definition of the matching policy, if any. `visited` is the number of places that the last `route` examined besides
    those it returned.
    """

    type: ClassVar[str]
    routes_by_key_only: bool = True
    visited = 0

    def __init__(
        self,
        name: str,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Table = NO_ARGUMENTS,
    ) -> None:
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments
        self.policy: Mapping[str, Any] = {}
        self.policy_names: tuple[str | None, str | None] = (None, None)
        self.is_deleted = False
        self.counts = MessageCounts()
        self.sampled = (0, 0)
        """The last sample in which it changed, and its activity then."""
        self.bindings: dict[tuple[int, str, Table], Binding] = {}

    @classmethod
    def check(cls, what: str, arguments: Table) -> None:
        """Raise 406 for arguments that this type cannot be declared with; `what` is the exchange's name and vhost."""
        alternate = field(arguments, "alternate-exchange")
        if alternate is not None and alternate.type != "S":
            kind = TYPE_NAMES[alternate.type]
            raise PreconditionFailed(f"invalid type '{kind}' for arg 'alternate-exchange' in {what}")

    @property
    def alternate(self) -> str | None:
        """The name of the alternate exchange, which takes messages that match no binding."""
        value = self.arguments.get("alternate-exchange", self.policy.get("alternate-exchange"))
        return value if isinstance(value, str) else None

    def has(self, binding: Binding) -> bool:
        """Whether the binding exists."""
        return _key(binding) in self.bindings

    def bind(self, binding: Binding) -> bool:
        """Add a binding and return whether it is new; raise a `ProtocolError` if the type does not accept it."""
        if self.has(binding):
            return False
        self.check_binding(binding)
        self.bindings[_key(binding)] = binding
        self.added(binding)
        return True

    def unbind(self, binding: Binding) -> bool:
        """Remove a binding; return whether it existed."""
        found = self.bindings.pop(_key(binding), None)
        if found is None:
            return False
        self.removed(found)
        return True

    def check_topic(self, user: User, vhost: str, operation: str, routing_key: str) -> None:
        """Raise 403 unless the user may use this routing key; only topic exchanges have permissions for keys."""

    def check_binding(self, binding: Binding) -> None:
        """Raise 406 for a binding that this type does not accept."""

    def added(self, binding: Binding) -> None:
        """Update the type's index for a new binding."""

    def removed(self, binding: Binding) -> None:
        """Update the type's index for a removed binding."""

    def route(self, routing_key: str, message: Message) -> Iterable[Queue | Exchange]:
        """Return the destinations of a message with this routing key, in any order; duplicates are harmless."""
        raise NotImplementedError

    def delay(self, message: Message) -> int:
        """Return the milliseconds for which a message must be held before it is routed."""
        return 0


def _key(binding: Binding) -> tuple[int, str, Table]:
    """Return the identity of a binding within its exchange."""
    return id(binding.destination), binding.routing_key, binding.arguments
