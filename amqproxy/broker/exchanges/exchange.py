"""What all exchange types share: a name, what it was declared with, and its bindings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from amqproxy.amqp091.errors import PreconditionFailed
from amqproxy.amqp091.wire import Table
from amqproxy.broker.arguments import TYPE_NAMES, field

if TYPE_CHECKING:
    from amqproxy.broker.access.users import User
    from amqproxy.broker.message import Message
    from amqproxy.broker.queues.queue import Queue

NO_ARGUMENTS = Table()


class Binding(NamedTuple):
    """From an exchange (which holds it) to a queue or another exchange, for what fits."""

    destination: Queue | Exchange
    routing_key: str
    arguments: Table


class Destinations(dict["Queue | Exchange", int]):
    """Where some bindings lead, and how many of them lead to each place."""

    def add(self, destination: Queue | Exchange) -> None:
        self[destination] = self.get(destination, 0) + 1

    def drop(self, destination: Queue | Exchange) -> None:
        count = self.pop(destination) - 1
        if count:
            self[destination] = count


class Exchange:
    """One exchange. A subclass is a type: it decides which bindings match a message.

    `routes_by_key_only` is true when the routing key alone decides, so that routes may be cached. `policy` is the
    definition of the policy that matches, if one does. `visited` is how many places the last `route` went over, beside
    those that it found.
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
        self.bindings: dict[tuple[int, str, Table], Binding] = {}

    @classmethod
    def check(cls, what: str, arguments: Table) -> None:
        """406 when an exchange of this type cannot be declared with these arguments; `what` is its name and vhost."""
        alternate = field(arguments, "alternate-exchange")
        if alternate is not None and alternate.type != "S":
            kind = TYPE_NAMES[alternate.type]
            raise PreconditionFailed(f"invalid type '{kind}' for arg 'alternate-exchange' in {what}")

    @property
    def alternate(self) -> str | None:
        """The exchange that takes what none of the bindings fits."""
        value = self.arguments.get("alternate-exchange", self.policy.get("alternate-exchange"))
        return value if isinstance(value, str) else None

    def has(self, binding: Binding) -> bool:
        """Is it there?"""
        return _key(binding) in self.bindings

    def bind(self, binding: Binding) -> bool:
        """Add a binding; False when it is there already. `ProtocolError` when the type does not take such a one."""
        if self.has(binding):
            return False
        self.check_binding(binding)
        self.bindings[_key(binding)] = binding
        self.added(binding)
        return True

    def unbind(self, binding: Binding) -> bool:
        """Remove a binding; False when it is not there."""
        found = self.bindings.pop(_key(binding), None)
        if found is None:
            return False
        self.removed(found)
        return True

    def check_topic(self, user: User, vhost: str, operation: str, routing_key: str) -> None:
        """403 unless the user may use this routing key here; only topic exchanges have permissions for keys."""

    def check_binding(self, binding: Binding) -> None:
        """406 when this type takes no such binding."""

    def added(self, binding: Binding) -> None:
        """A new binding; for what a type keeps of its own."""

    def removed(self, binding: Binding) -> None:
        """A binding is gone; for what a type keeps of its own."""

    def route(self, routing_key: str, message: Message) -> Iterable[Queue | Exchange]:
        """Where a message with this key goes, in any order; twins do no harm."""
        raise NotImplementedError

    def delay(self, message: Message) -> int:
        """Milliseconds for which a message is to be held before it is routed."""
        return 0


def _key(binding: Binding) -> tuple[int, str, Table]:
    """The identity of a binding within its exchange."""
    return id(binding.destination), binding.routing_key, binding.arguments
