"""headers: the message's headers match the binding's arguments. Section 3.1.3.4."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from amqproxy.broker.exchange import Binding, Exchange

if TYPE_CHECKING:
    from amqproxy.broker.message import Message
    from amqproxy.broker.queue import Queue

MATCHES = ("all", "any", "all-with-x", "any-with-x")


class Headers(Exchange):
    type = "headers"
    routes_by_key_only = False

    def route(self, routing_key: str, message: Message) -> Iterable[Queue | Exchange]:
        headers: Mapping[str, Any] = message.properties.headers or {}
        return [binding.destination for binding in self.bindings.values() if is_match(binding, headers)]


def is_match(binding: Binding, headers: Mapping[str, Any]) -> bool:
    """Do the headers have all, or any, of what the binding asks for?

    A void value asks only that the name be there. Names that begin with x- count for the -with-x forms alone.
    """
    how = binding.arguments.get("x-match", "all")
    wanted = {
        name: value
        for name, value in binding.arguments.items()
        if name != "x-match" and (how.endswith("-with-x") or not name.startswith("x-"))
    }
    matches = (name in headers and (value is None or headers[name] == value) for name, value in wanted.items())
    return any(matches) if how.startswith("any") else all(matches)
