"""headers: the message's headers match the binding's arguments. Section 3.1.3.4."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from amqproxy.amqp091.errors import PreconditionFailed
from amqproxy.amqp091.wire import Array, Table
from amqproxy.broker.arguments import TYPE_NAMES, comparable, field
from amqproxy.broker.exchanges.exchange import Binding, Exchange

if TYPE_CHECKING:
    from amqproxy.broker.message import Message
    from amqproxy.broker.queues.queue import Queue

MATCHES = ("all", "any", "all-with-x", "any-with-x")


Want = tuple[str, Any]
"""A header's name, and its value: ANY, where that does not matter."""

ANY = object()


class HeadersExchange(Exchange):
    """Each pattern is looked at for those messages only that have a header it asks for.

    One that asks for all of several lies where the fewest others do; one that asks for any of them, at each. A value
    that a look-up cannot distinguish (a table or an array) is taken for ANY.
    """

    type = "headers"
    routes_by_key_only = False

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._patterns: dict[Binding, tuple[HeadersPattern, tuple[Want, ...]]] = {}
        self._wanting: dict[Want, dict[Binding, HeadersPattern]] = {}
        self._always: dict[Binding, HeadersPattern] = {}

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
        pattern = HeadersPattern(binding.arguments)
        wants = tuple(dict.fromkeys((name, _lookup_key(value)) for name, value in pattern.wanted))
        if wants and not pattern.takes_any:
            wants = (min(wants, key=lambda want: len(self._wanting.get(want, ()))),)
        self._patterns[binding] = pattern, wants
        for want in wants:
            self._wanting.setdefault(want, {})[binding] = pattern
        if not wants:
            self._always[binding] = pattern

    def removed(self, binding: Binding) -> None:
        _, wants = self._patterns.pop(binding)
        for want in wants:
            wanting = self._wanting[want]
            del wanting[binding]
            if not wanting:
                del self._wanting[want]
        self._always.pop(binding, None)

    def route(self, routing_key: str, message: Message) -> Iterable[Queue | Exchange]:
        headers = message.properties.headers
        found: Mapping[str, Any] = {}
        if headers is not None:
            found = {each.name: comparable(each.value) for each in reversed(headers.fields)}
        places = [self._always]
        for name, value in found.items():
            for want in {(name, _lookup_key(value)), (name, ANY)}:
                if (wanting := self._wanting.get(want)) is not None:
                    places.append(wanting)
        self.visited = sum(map(len, places))
        return [binding.destination for place in places for binding, pattern in place.items() if pattern.fits(found)]


def _lookup_key(value: Any) -> Any:
    """A value as it can be looked up by: equal ones are one. None asks for the name alone."""
    return ANY if value is None or isinstance(value, (Table, Array)) else value


class HeadersPattern:
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
