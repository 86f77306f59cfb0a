"""Which commands a rule is about."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec

from amqproxy.amqp091.methods import BY_NAME
from amqproxy.amqp091.properties import Properties
from amqproxy.rules.clock_time import ClockTime
from amqproxy.rules.condition import Condition
from amqproxy.rules.names import NAMES, Source
from amqproxy.rules.pattern import Patterns, predicate
from amqproxy.rules.quantity import octets
from amqproxy.rules.seen import Seen
from amqproxy.rules.verdict import Stage
from amqproxy.rules.wording import like

HEARTBEAT = "heartbeat"
"""No method, but named as if it were one."""

Wanted = bool | int | float | str | tuple[str, ...]
"""What is wanted of an entry: true, that it is there; false, that it is not; a number; or a pattern of its text."""


class Sizes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """At least `min` octets and at most `max`, as numbers or like "64KiB"."""

    min: int | str = 0
    max: int | str | None = None

    def __post_init__(self) -> None:
        for key in ("min", "max"):
            size = getattr(self, key)
            if size is not None:
                _placed(key, octets, size)
        if self.max is not None and octets(self.min) > octets(self.max):
            raise ValueError(f"nothing has at least {self.min} and at most {self.max}")


class Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All that is given must hold; of several patterns for one thing, any.

    What a command does not have matches no pattern, not even a negated one. `address` takes addresses and networks;
    `client` names client properties, `properties` and `headers` what a message has, `json` JSON pointers into its body;
    `sample` is a percentage.
    """

    sender: Literal["client", "server"] | None = None
    method: Patterns | None = None
    vhost: Patterns | None = None
    user: Patterns | None = None
    address: Patterns | None = None
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
        """The methods that it can hold of, and the heartbeat."""
        every: Iterable[str] = (*BY_NAME, HEARTBEAT)
        if self.method is not None:
            holds = _placed("method", predicate, self.method)
            every = [name for name in every if holds(name)]
            if not every:
                raise ValueError(f".method: {_no_such_method(self.method)}")
        for key, fields in _FIELDS.items():
            if getattr(self, key):
                every = [name for name in every if name in BY_NAME and _has(name, fields)]
        if any(getattr(self, key) for key in ("size", "properties", "headers", "body", "json")):
            every = [name for name in every if name in BY_NAME and BY_NAME[name].carries_content]
        return frozenset(every)

    def conditions(self) -> tuple[Condition, ...]:
        """What must hold, but for `method`, cheapest first; `ValueError` with the key and what is wrong with it."""
        return (*self._of_text(), *self._of_entries(), *self._of_others())

    def _of_text(self) -> Iterable[Condition]:
        for key, path in _TEXTS.items():
            patterns = getattr(self, key)
            if patterns is not None:
                yield _about(path, _of_text(_placed(key, predicate, patterns)))
        if self.address is not None:
            yield _about("client.address", _of_text(_placed("address", networks, self.address)))

    def _of_entries(self) -> Iterable[Condition]:
        for name in self.properties:
            if name == "headers" or name not in Properties.__struct_fields__:
                raise ValueError(f".properties: no message has a property `{name}`{like(name, _PROPERTIES)}")
        for name, wanted in self.properties.items():
            yield _about(f"properties.{name}", _placed(f"properties.{name}", entry, wanted))
        for key, path in (("client", "client.properties"), ("arguments", "arguments"), ("headers", "headers")):
            for name, wanted in getattr(self, key).items():
                yield _about(path, _at(_placed(f"{key}.{name}", entry, wanted), name, at_path))
        for pointer, wanted in self.json.items():
            if pointer and not pointer.startswith("/"):
                raise ValueError(f".json: `{pointer}` is no JSON pointer: it must begin with /")
            yield _about("json", _at(_placed(f"json.{pointer}", entry, wanted), pointer, at_pointer))

    def _of_others(self) -> Iterable[Condition]:
        if self.sender is not None:
            yield _about("sender", self.sender.__eq__)
        if self.size is not None:
            least, most = octets(self.size.min), None if self.size.max is None else octets(self.size.max)
            yield _about("size", lambda size: size is not None and least <= size and (most is None or size <= most))
        if self.time is not None:
            yield _about("time", self.time.holds)
        if self.sample is not None:
            share = self.sample / 100
            yield Condition(Source.MOMENT, Stage.METHOD, frozenset(), lambda seen: seen.random() < share)


_TEXTS = {
    "vhost": "vhost",
    "user": "user",
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
"""The keys that are patterns, and the names of what they are about."""

_FIELDS = {
    "exchange": ("exchange", "source"),
    "destination": ("destination",),
    "queue": ("queue",),
    "routing_key": ("routing_key",),
    "consumer_tag": ("consumer_tag",),
    "arguments": ("arguments",),
}
"""The keys that are about a method's fields, of which it must have one."""

_PROPERTIES = tuple(field for field in Properties.__struct_fields__ if field != "headers")


def _has(method: str, fields: tuple[str, ...]) -> bool:
    return any(field in BY_NAME[method].__struct_fields__ for field in fields)


def _placed(key: str, make: Callable[[Any], Any], value: Any) -> Any:
    """What `make` makes of a value; its `ValueError` is told with the key."""
    try:
        return make(value)
    except ValueError as error:
        raise ValueError(f".{key}: {error}") from None


def _no_such_method(patterns: Patterns) -> str:
    first = patterns if isinstance(patterns, str) else patterns[0]
    return f"`{first}` is no method{like(first, BY_NAME)}"


def _about(path: str, check: Callable[[Any], bool]) -> Condition:
    """That a check holds of what a name stands for."""
    name = NAMES[path]
    value = name.value

    def holds(seen: Seen) -> bool:
        return check(value(seen))

    return Condition(name.source, name.stage, frozenset({path}), holds)


def _of_text(holds: Callable[[str], bool]) -> Callable[[Any], bool]:
    return lambda value: value is not None and holds(value)


def entry(wanted: Wanted) -> Callable[[Any], bool]:
    """Is a value what is wanted? None is one that is not there."""
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
    """A value as patterns see it; None where it is not there, or is made of several."""
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


def at_path(table: Any, path: str) -> Any:
    """The entry of that name, or the one that lies at a path with slashes; None where there is none."""
    if path in table:
        return table[path]
    found = table
    for step in path.split("/"):
        if not isinstance(found, Mapping) or step not in found:
            return None
        found = found[step]
    return found


def at_pointer(document: Any, pointer: str) -> Any:
    """What lies at a JSON pointer (RFC 6901); None where nothing does."""
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
    """Is an IP address one of these addresses or in one of these networks, and in none that a `!` goes before?"""
    wanted: list[Network] = []
    unwanted: list[Network] = []
    for pattern in (patterns,) if isinstance(patterns, str) else patterns:
        network = _network(pattern.removeprefix("!"))
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


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"`{text}` is neither an IP address nor a network such as 10.0.0.0/8") from None
