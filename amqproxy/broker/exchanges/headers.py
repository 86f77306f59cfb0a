"""headers: the message's headers match the binding's arguments. Section 3.1.3.4."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from amqproxy.amqp091.errors import PreconditionFailed
from amqproxy.amqp091.wire import Table
from amqproxy.broker.arguments import TYPE_NAMES, comparable, field
from amqproxy.broker.exchange import Binding, Exchange

if TYPE_CHECKING:
    from amqproxy.broker.message import Message
    from amqproxy.broker.queue import Queue

MATCHES = ("all", "any", "all-with-x", "any-with-x")


class Headers(Exchange):
    type = "headers"
    routes_by_key_only = False

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._patterns: dict[Binding, Pattern] = {}

    def check_binding(self, binding: Binding) -> None:
        how = field(binding.arguments, "x-match")
        if how is None:
            return
        if how.type != "S":
            kind = TYPE_NAMES[how.type]
            raise PreconditionFailed(f"Invalid x-match field type {kind} (value {how.value}); expected longstr")
        if how.value not in MATCHES:
            raise PreconditionFailed(
                f'Invalid x-match field value <<"{how.value}">>; expected all, any, all-with-x, or any-with-x'
            )

    def added(self, binding: Binding) -> None:
        self._patterns[binding] = Pattern(binding.arguments)

    def removed(self, binding: Binding) -> None:
        del self._patterns[binding]

    def route(self, routing_key: str, message: Message) -> Iterable[Queue | Exchange]:
        headers = message.properties.headers
        found: Mapping[str, Any] = {}
        if headers is not None:
            found = {each.name: comparable(each.value) for each in reversed(headers.fields)}
        return [binding.destination for binding, pattern in self._patterns.items() if pattern.fits(found)]


class Pattern:
    """What a binding asks of headers.

    A void value asks only that the name be there. Names that begin with x- count for the -with-x forms alone. Nothing
    asked for is all that is asked for, but not any of it.
    """

    __slots__ = ("takes_any", "wanted")

    def __init__(self, arguments: Table) -> None:
        how = arguments.get("x-match", "all")
        self.takes_any = how.startswith("any")
        self.wanted = [
            (name, comparable(value))
            for name, value in arguments.items()
            if name != "x-match" and (how.endswith("-with-x") or not name.startswith("x-"))
        ]

    def fits(self, headers: Mapping[str, Any]) -> bool:
        """Do the headers have all, or any, of it?"""
        matches = (name in headers and (value is None or headers[name] == value) for name, value in self.wanted)
        return any(matches) if self.takes_any else all(matches)
