"""The `match` of a rule."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BY_NAME, BasicPublish
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.conversion.client_name import ALIASES
from amqproxy.rules.context import CommandContext
from amqproxy.rules.matching.attributes import NAMES, AttributeSource
from amqproxy.rules.matching.clock_time import ClockTime
from amqproxy.rules.matching.condition import Condition
from amqproxy.rules.matching.operations import Name, UnknownName, exchanges_of, queues_of, routing_keys_of, spellings
from amqproxy.rules.matching.patterns import Patterns, Predicate, predicate, takes_all
from amqproxy.rules.suggestions import did_you_mean
from amqproxy.rules.units import byte_size
from amqproxy.rules.verdict import Stage

HEARTBEAT = "heartbeat"
"""Pseudo-method name of heartbeat frames."""

Wanted = bool | int | float | str | tuple[str, ...]
"""Test of an entry: `True` if present, `False` if absent, a number, or a pattern of its text."""


class MatchedPlaces(StrEnum):
    """Places in a command where exchange, queue and routing key names must match."""

    ANY = "any"
    """Any name with an effect: CC and BCC, dead-letter and alternate exchanges, both ends of a binding."""
    ALL = "all"
    """All names with an effect."""
    OWN = "own"
    """The name in the method's own field."""


class Sizes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Size range from `min` to `max` bytes, as numbers or like "64KiB"."""

    min: int | str = 0
    max: int | str | None = None

    def __post_init__(self) -> None:
        for key in ("min", "max"):
            size = getattr(self, key)
            if size is not None:
                _placed(key, byte_size, size)
        if self.max is not None and byte_size(self.min) > byte_size(self.max):
            raise ValueError(f"min is {self.min}, and must not be above max, {self.max}")


class Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Conditions that must all hold; of several patterns for one key, any.

    A missing value matches no pattern, not even a negated one. `address` takes addresses and networks; `client` names
    client properties (`name` is the connection name, like `connection_name`), `properties` and `headers` those of a
    message, `json` JSON pointers into its body; `sample` is a percentage. A command may name several exchanges, queues
    or routing keys: `MatchedPlaces` selects those that must match.
    """

    sender: Literal["client", "server"] | None = None
    method: Patterns | None = None
    vhost: Patterns | None = None
    user: Patterns | None = None
    address: Patterns | None = None
    connection_name: Patterns | None = None
    client: Mapping[str, Wanted] = {}
    listener: Patterns | None = None
    upstream: Patterns | None = None
    tls_subject: Patterns | None = None
    tls_sni: Patterns | None = None
    exchange: Patterns | None = None
    destination: Patterns | None = None
    queue: Patterns | None = None
    routing_key: Patterns | None = None
    consumer_tag: Patterns | None = None
    arguments: Mapping[str, Wanted] = {}
    size: Sizes | None = None
    properties: Mapping[str, Wanted] = {}
    headers: Mapping[str, Wanted] = {}
    body: Patterns | None = None
    json: Mapping[str, Wanted] = {}
    time: ClockTime | None = None
    sample: Annotated[float, msgspec.Meta(gt=0, le=100)] | None = None

    def __post_init__(self) -> None:
        self.conditions()
        _ = self.methods

    @property
    def methods(self) -> frozenset[str]:
        """Return the methods, including the heartbeat, that can match."""
        return self.methods_in(MatchedPlaces.ANY)

    def methods_in(self, places: MatchedPlaces) -> frozenset[str]:
        """Return the methods that can match if names must match in these places."""
        every: Iterable[str] = (*BY_NAME, HEARTBEAT)
        if self.method is not None:
            holds = _placed("method", predicate, self.method)
            every = [name for name in every if holds(name)]
            if not every:
                raise ValueError(f".method: {_no_such_method(self.method)}")
        further = {} if places is MatchedPlaces.OWN else _FURTHER
        for key, fields in _FIELDS.items():
            if getattr(self, key):
                others = further.get(key, ())
                every = [name for name in every if name in others or (name in BY_NAME and _has(name, fields))]
        if any(getattr(self, key) for key in ("size", "properties", "headers", "body", "json")):
            every = [name for name in every if name in BY_NAME and BY_NAME[name].carries_content]
        return frozenset(every)

    def conditions(self, places: MatchedPlaces = MatchedPlaces.ANY) -> tuple[Condition, ...]:
        """Return all conditions except `method`, cheapest first; raise `ValueError` with the key and the error."""
        return (*self._of_text(places), *self._of_entries(places), *self._of_others())

    def _of_text(self, places: MatchedPlaces) -> Iterable[Condition]:
        for key, path in _TEXTS.items():
            patterns = getattr(self, key)
            if patterns is None:
                continue
            holds = _placed(key, predicate, patterns)
            if key in _NAMED and places is not MatchedPlaces.OWN:
                yield from self._of_names(key, holds, patterns, places)
            elif key in _SPELT:
                yield _about(path, _of_spellings(holds, all if places is MatchedPlaces.ALL else any))
            else:
                yield _about(path, _of_text(holds))
        if self.address is not None:
            yield _about("client.address", _of_text(_placed("address", networks, self.address)))

    def _of_names(self, key: str, holds: Predicate, patterns: Patterns, places: MatchedPlaces) -> Iterable[Condition]:
        """Yield conditions on the names in all places of a command; those in the header of a publish come last."""
        names = _NAMED[key]
        counts_unknown = (
            takes_all(patterns) if places is MatchedPlaces.ALL else self.exchange is not None or key == "queue"
        )

        def is_so(name: Name) -> bool:
            return counts_unknown if isinstance(name, UnknownName) else holds(name)

        def do_hold(context: CommandContext) -> bool:
            found = names(context.command)
            if places is MatchedPlaces.ALL:
                return bool(found) and all(map(is_so, found))
            return any(map(is_so, found))

        reads = frozenset({key})
        if key == "exchange" or "basic.publish" not in self.methods:
            yield Condition(AttributeSource.METHOD, Stage.METHOD, reads, do_hold)
            return

        def may_hold(context: CommandContext) -> bool:
            if context.command.index != BasicPublish.index:
                return do_hold(context)
            return bool(names(context.command)) if places is MatchedPlaces.ANY else do_hold(context)

        yield Condition(AttributeSource.METHOD, Stage.METHOD, reads, may_hold)
        yield Condition(AttributeSource.CONTENT, Stage.HEADER, reads, do_hold, reads_header_names=True)

    def _of_entries(self, places: MatchedPlaces) -> Iterable[Condition]:
        for name in self.properties:
            if name == "headers" or name not in Properties.__struct_fields__:
                raise ValueError(f".properties: no message has a property `{name}`{did_you_mean(name, _PROPERTIES)}")
        for name, wanted in self.properties.items():
            yield _about(f"properties.{name}", _placed(f"properties.{name}", entry, wanted))
        for name, wanted in self.client.items():
            holds = _placed(f"client.{name}", entry, wanted)
            if f"client.{name}" in ALIASES:
                yield _about(f"client.{name}", holds)
            else:
                yield _about("client.properties", _at(holds, name, at_path))
        for key in ("arguments", "headers"):
            for name, wanted in getattr(self, key).items():
                yield _about(key, _of_twins(_placed(f"{key}.{name}", entry, wanted), name, places))
        for pointer, wanted in self.json.items():
            if pointer and not pointer.startswith("/"):
                raise ValueError(f".json: `{pointer}` is not a JSON pointer: it must begin with /")
            yield _about("json", _at(_placed(f"json.{pointer}", entry, wanted), pointer, at_pointer))

    def _of_others(self) -> Iterable[Condition]:
        if self.sender is not None:
            yield _about("sender", self.sender.__eq__)
        if self.size is not None:
            least, most = byte_size(self.size.min), None if self.size.max is None else byte_size(self.size.max)
            yield _about("size", lambda size: size is not None and least <= size and (most is None or size <= most))
        if self.time is not None:
            yield _about("time", self.time.holds)
        if self.sample is not None:
            share = self.sample / 100
            yield Condition(AttributeSource.MOMENT, Stage.METHOD, frozenset(), lambda context: context.random() < share)


_TEXTS = {
    "vhost": "vhost",
    "user": "user",
    "connection_name": "client.name",
    "listener": "listener",
    "upstream": "upstream",
    "tls_subject": "tls.subject",
    "tls_sni": "tls.sni",
    "exchange": "exchange",
    "destination": "destination",
    "queue": "queue",
    "routing_key": "routing_key",
    "consumer_tag": "consumer_tag",
    "body": "body",
}
"""Keys that are patterns, and the attributes that they test."""

_NAMED: Mapping[str, Callable[[Command], Sequence[Name]]] = {
    "exchange": exchanges_of,
    "queue": queues_of,
    "routing_key": routing_keys_of,
}
"""Keys about names that occur in several places, and the functions that find them."""

_SPELT = frozenset({"exchange", "destination", "queue"})
"""Keys of names in which brokers may drop line breaks: see `spellings`."""

_FURTHER = {
    "exchange": ("queue.declare",),
    "queue": ("basic.publish",),
    "routing_key": ("queue.declare", "exchange.declare"),
}
"""Methods that lack the field of a key but may name such an object in arguments or by the default exchange."""

_FIELDS = {
    "exchange": ("exchange", "source", "destination"),
    "destination": ("destination",),
    "queue": ("queue",),
    "routing_key": ("routing_key",),
    "consumer_tag": ("consumer_tag",),
    "arguments": ("arguments",),
}
"""Keys about method fields, and the fields of which a method must have one."""

_PROPERTIES = tuple(field for field in Properties.__struct_fields__ if field != "headers")


def _has(method: str, fields: tuple[str, ...]) -> bool:
    return any(field in BY_NAME[method].__struct_fields__ for field in fields)


def _placed(key: str, make: Callable[[Any], Any], value: Any) -> Any:
    """Return `make(value)`, and add the key to its `ValueError`."""
    try:
        return make(value)
    except ValueError as error:
        raise ValueError(f".{key}: {error}") from None


def _no_such_method(patterns: Patterns) -> str:
    first = patterns if isinstance(patterns, str) else patterns[0]
    return f"`{first}` is not a method{did_you_mean(first, BY_NAME)}"


def _about(path: str, check: Callable[[Any], bool]) -> Condition:
    """Return a condition that a check holds for an attribute."""
    name = NAMES[path]
    value = name.value

    def holds(context: CommandContext) -> bool:
        return check(value(context))

    return Condition(name.source, name.stage, frozenset({path}), holds)


def _of_text(holds: Callable[[str], bool]) -> Callable[[Any], bool]:
    return lambda value: value is not None and holds(value)


def _of_spellings(holds: Predicate, every: Callable[[Iterable[bool]], bool]) -> Callable[[Any], bool]:
    return lambda value: value is not None and every(map(holds, spellings(value)))


def entry(wanted: Wanted) -> Callable[[Any], bool]:
    """Return a test of an entry's value; `None` is a missing entry."""
    if isinstance(wanted, bool):
        return (lambda value: value is not None) if wanted else (lambda value: value is None)
    if isinstance(wanted, (int, float)):
        return lambda value: not isinstance(value, bool) and isinstance(value, (int, float)) and value == wanted
    holds = predicate(wanted)

    def is_meant(value: Any) -> bool:
        text = text_of(value)
        return text is not None and holds(text)

    return is_meant


def text_of(value: Any) -> str | None:
    """Return a value as patterns see it; `None` for a missing or composite value."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value is None or isinstance(value, Mapping) or not hasattr(value, "__round__"):
        return None
    return str(value)


def _at(check: Callable[[Any], bool], place: str, look_up: Callable[[Any, str], Any]) -> Callable[[Any], bool]:
    return lambda value: value is not None and check(look_up(value, place))


def _of_twins(check: Callable[[Any], bool], path: str, places: MatchedPlaces) -> Callable[[Any], bool]:
    """Return a check over all entries of one name in a table, of which RabbitMQ uses the first."""
    is_name = "/" not in path

    def holds(table: Any) -> bool:
        if table is None:
            return False
        if is_name and isinstance(table, Table):
            values = table.values_by_name
            if places is MatchedPlaces.OWN or len(values) == len(table.fields):  # no duplicates
                return check(values.get(path))
        found = every_at_path(table, path) or [None]
        if places is MatchedPlaces.OWN:
            return check(found[0])
        return all(map(check, found)) if places is MatchedPlaces.ALL else any(map(check, found))

    return holds


def every_at_path(table: Any, path: str) -> list[Any]:
    """Return all entries with that name or path, since a table may contain duplicates."""
    found = _every(table, path)
    if not found and "/" in path:
        tables = [table]
        *steps, last = path.split("/")
        for step in steps:
            tables = [each for inner in tables for each in _every(inner, step)]
        found = [each for inner in tables for each in _every(inner, last)]
    return found


def _every(table: Any, name: str) -> list[Any]:
    if isinstance(table, Table):
        return [field.value for field in table.fields if field.name == name]
    return [table[name]] if isinstance(table, Mapping) and name in table else []


def at_path(table: Any, path: str) -> Any:
    """Return the entry of that name, or at a path with slashes; `None` if there is none."""
    if path in table:
        return table[path]
    found = table
    for step in path.split("/"):
        if not isinstance(found, Mapping) or step not in found:
            return None
        found = found[step]
    return found


def at_pointer(document: Any, pointer: str) -> Any:
    """Return the value at a JSON pointer (RFC 6901); `None` if there is none."""
    found = document
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and step.isascii() and step.isdigit() and int(step) < len(found):
            found = found[int(step)]
        elif isinstance(found, dict) and step in found:
            found = found[step]
        else:
            return None
    return found


def networks(patterns: Patterns) -> Callable[[str], bool]:
    """Return a test whether an IP address is in one of these networks, and in none that is negated with `!`."""
    wanted: list[Network] = []
    unwanted: list[Network] = []
    for pattern in (patterns,) if isinstance(patterns, str) else patterns:
        network = parse_network(pattern.removeprefix("!"))
        (unwanted if pattern.startswith("!") else wanted).append(network)

    def holds(text: str) -> bool:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address):
            address = address.ipv4_mapped or address
        if any(address in each for each in unwanted):
            return False
        return not wanted or any(address in each for each in wanted)

    return holds


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def parse_network(text: str) -> Network:
    """Return the network that an address or a network in CIDR notation names; raise `ValueError` for another text."""
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"`{text}` is neither an IP address nor a network such as 10.0.0.0/8") from None
