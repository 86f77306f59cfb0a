"""headers: the message's headers match the binding's arguments. Section 3.1.3.4."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
"""A header's name and wanted value; `ANY` if the value does not matter."""

ANY = object()


class HeadersExchange(Exchange):
    """Headers exchange that checks a pattern only for messages with a header that it asks for.

    A pattern that requires all of several headers is indexed under the one with the fewest other patterns; one that
    requires any of them, under each. A value that a look-up cannot distinguish (a table or an array) counts as `ANY`.
    """

    type = "headers"
    routes_by_key_only = False
    equates_floats = True
    """Whether 1 and 1.0 are equal, as in RabbitMQ before 4.0."""

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
        pattern = HeadersPattern(binding.arguments, self._comparable)
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

    def _comparable(self, value: Any) -> Any:
        return ("float", value) if isinstance(value, float) and not self.equates_floats else comparable(value)

    def route(self, routing_key: str, message: Message) -> Iterable[Queue | Exchange]:
        headers = message.properties.headers
        found: Mapping[str, Any] = {}
        if headers is not None:
            found = {each.name: self._comparable(each.value) for each in reversed(headers.fields)}
        places = [self._always]
        for name, value in found.items():
            for want in {(name, _lookup_key(value)), (name, ANY)}:
                if (wanting := self._wanting.get(want)) is not None:
                    places.append(wanting)
        self.visited = sum(map(len, places))
        return [binding.destination for place in places for binding, pattern in place.items() if pattern.fits(found)]


class TypedHeadersExchange(HeadersExchange):
    """Headers exchange of RabbitMQ 4, to which 1 and 1.0 differ."""

    equates_floats = False


def _lookup_key(value: Any) -> Any:
    """Return the look-up key of a value, equal for equal values; `ANY` for `None`, which requires only the name."""
    return ANY if value is None or isinstance(value, (Table, Array)) else value


class HeadersPattern:
    """Header conditions of a binding.

    A void value requires only the presence of the name. Names that begin with x- count only for the -with-x forms. An
    empty set of conditions matches with `all` but not with `any`.
    """

    __slots__ = ("takes_any", "wanted")

    def __init__(self, arguments: Table, comparable: Callable[[Any], Any] = comparable) -> None:
        how = arguments.get("x-match", "all")
        self.takes_any = how.startswith("any")
        self.wanted = [
            (name, comparable(value))
            for name, value in arguments.items()
            if name != "x-match" and (how.endswith("-with-x") or not name.startswith("x-"))
        ]

    def fits(self, headers: Mapping[str, Any]) -> bool:
        """Whether the headers meet all conditions or, with `takes_any`, any of them."""
        matches = (name in headers and (value is None or headers[name] == value) for name, value in self.wanted)
        return any(matches) if self.takes_any else all(matches)
