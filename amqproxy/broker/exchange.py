"""What all exchange types share: a name, what it was declared with, and its bindings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from amqproxy.amqp091.wire import Table

if TYPE_CHECKING:
    from amqproxy.broker.message import Message
    from amqproxy.broker.queue import Queue

NO_ARGUMENTS = Table()


class Binding(NamedTuple):
    """From an exchange (which holds it) to a queue or another exchange, for what fits."""

    destination: Queue | Exchange
    routing_key: str
    arguments: Table


class Exchange:
    """One exchange. A subclass is a type: it says which bindings a message fits.

    `routes_by_key_only` says that nothing else of a message counts, so that routes may be remembered.
    """

    type: ClassVar[str]
    routes_by_key_only: ClassVar[bool] = True

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
        self.bindings: dict[tuple[int, str, Table], Binding] = {}

    @property
    def alternate(self) -> str | None:
        """The exchange that takes what none of the bindings fits."""
        value = self.arguments.get("alternate-exchange")
        return value if isinstance(value, str) else None

    def bind(self, binding: Binding) -> bool:
        """Add a binding; False when it is there already."""
        key = (id(binding.destination), binding.routing_key, binding.arguments)
        if key in self.bindings:
            return False
        self.bindings[key] = binding
        self.added(binding)
        return True

    def unbind(self, binding: Binding) -> bool:
        """Remove a binding; False when it is not there."""
        found = self.bindings.pop((id(binding.destination), binding.routing_key, binding.arguments), None)
        if found is None:
            return False
        self.removed(found)
        return True

    def added(self, binding: Binding) -> None:
        """A new binding; for what a type keeps of its own."""

    def removed(self, binding: Binding) -> None:
        """A binding is gone; for what a type keeps of its own."""

    def route(self, routing_key: str, message: Message) -> Iterable[Queue | Exchange]:
        """Where a message with this key goes, in any order; twins do no harm."""
        raise NotImplementedError
