"""Attributes: the names by which rules and filters read commands, and the source of each value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import HEARTBEAT
from amqproxy.amqp091.methods import BY_INDEX, ConnectionOpenOk
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.amqp091.wire import Array, Table
from amqproxy.conversion.client_name import ALIASES
from amqproxy.rules.context import Client, CommandContext
from amqproxy.rules.matching.operations import Name as Named
from amqproxy.rules.matching.operations import exchanges_of, queues_of, routing_keys_of
from amqproxy.rules.verdict import Stage


class AttributeSource(StrEnum):
    """Facts that an attribute's value depends on, and so its lifetime."""

    CLIENT = "client"
    """The session: the value is the same for all its commands, once known."""
    METHOD = "method"
    """The bytes of the method: equal methods have equal values."""
    CONTENT = "content"
    """The header and body of one command."""
    MOMENT = "moment"
    """The moment: the time, the state of the channel, delivery tags, chance."""


class AttributeKind(StrEnum):
    """Type of an attribute's value."""

    TEXT = "a text"
    NUMBER = "a number"
    FLAG = "true or false"
    TIME = "a time"
    """In seconds since 1970; a timestamp in CEL."""
    LIST = "a list"
    """A list of texts."""
    TABLE = "a table"
    """A mapping of names to values as sent by a peer."""
    ANYTHING = "anything"


class Attribute(msgspec.Struct, frozen=True):
    """One attribute: `path` is its dotted name; `value` returns `None` if a command lacks it."""

    path: str
    kind: AttributeKind
    source: AttributeSource
    stage: Stage
    meaning: str
    value: Callable[[CommandContext], Any]


def _of_method(*fields: str) -> Callable[[CommandContext], Any]:
    """Return a getter of the first of these fields that a method has."""

    def value(context: CommandContext) -> Any:
        method = context.command.method
        for field in fields:
            found = getattr(method, field, None)
            if found is not None:
                return found
        return None

    return value


def _of_client(field: str) -> Callable[[CommandContext], Any]:
    """Return a getter of a client field; `None` while it is unknown."""

    def value(context: CommandContext) -> Any:
        return getattr(context.client, field) or None

    return value


def _of_channel(field: str) -> Callable[[CommandContext], Any]:
    return lambda context: getattr(context.channel, field)


def _every(names: Callable[[Command], Sequence[Named]]) -> Callable[[CommandContext], list[str]]:
    """Return a getter of all known names of a command."""
    return lambda context: [name for name in names(context.command) if isinstance(name, str)]


def method_name(context: CommandContext) -> str:
    """Return the method name as in the specification; "heartbeat" for a heartbeat."""
    command = context.command
    if command.frames and command.frames[0].kind == HEARTBEAT:
        return "heartbeat"
    name: str = command.method.name
    return name


def _of_property(field: str) -> Callable[[CommandContext], Any]:
    def value(context: CommandContext) -> Any:
        header = context.command.header
        return None if header is None else getattr(header.properties, field)

    return value


def _size(context: CommandContext) -> int | None:
    return None if context.command.header is None else context.command.body_size


def _headers(context: CommandContext) -> Mapping[str, Any] | None:
    """Return the headers of a message; an empty table if it has none, `None` for a command without content."""
    header = context.command.header
    if header is None:
        return None
    return header.properties.headers or _NO_HEADERS


_NO_HEADERS = Table()


def body_text(context: CommandContext) -> str | None:
    """Return the body decoded as UTF-8, with U+FFFD for invalid bytes."""
    if context.command.header is None:
        return None
    context.check_size(context.command.body_size)
    return context.command.body.decode("utf-8", "replace")


def body_json(context: CommandContext) -> Any:
    """Return the body decoded as JSON; `None` if it is not valid JSON."""
    if context.command.header is None:
        return None
    context.check_size(context.command.body_size)
    try:
        return msgspec.json.decode(context.command.body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


SECRETS = frozenset(cls.secret for cls in BY_INDEX if cls.secret)
"""Fields without an attribute: a rule that could read them could also log them."""


def _fields(context: CommandContext) -> dict[str, Any]:
    fields: dict[str, Any] = context.command.method.to_dict()
    return {name: value for name, value in fields.items() if name not in SECRETS}


Value = Callable[[CommandContext], Any]


def _about_client(path: str, meaning: str, value: Value, kind: AttributeKind = AttributeKind.TEXT) -> Attribute:
    return Attribute(path, kind, AttributeSource.CLIENT, Stage.METHOD, meaning, value)


def _about_method(path: str, meaning: str, value: Value, kind: AttributeKind = AttributeKind.TEXT) -> Attribute:
    return Attribute(path, kind, AttributeSource.METHOD, Stage.METHOD, meaning, value)


def _about_content(
    path: str, stage: Stage, meaning: str, value: Value, kind: AttributeKind = AttributeKind.TEXT
) -> Attribute:
    return Attribute(path, kind, AttributeSource.CONTENT, stage, meaning, value)


def _about_moment(path: str, meaning: str, value: Value, kind: AttributeKind = AttributeKind.NUMBER) -> Attribute:
    return Attribute(path, kind, AttributeSource.MOMENT, Stage.METHOD, meaning, value)


_ALL = [
    _about_method("sender", "the sender: `client` or `server`", lambda context: context.sender.value),
    _about_method("method", "the method, such as `basic.publish`", method_name),
    _about_method(
        "exchange", "of messages, declares and bindings; of exchange.bind, the source", _of_method("exchange", "source")
    ),
    _about_method("destination", "the exchange that exchange.bind binds", _of_method("destination")),
    _about_method("queue", "of declare, bind, purge, delete, consume and get", _of_method("queue")),
    _about_method("routing_key", "of messages and bindings", _of_method("routing_key")),
    _about_method("consumer_tag", "of consumers and deliveries", _of_method("consumer_tag")),
    _about_method("exchanges", "all exchanges that it affects", _every(exchanges_of), AttributeKind.LIST),
    _about_content("queues", Stage.HEADER, "all queues that it affects", _every(queues_of), AttributeKind.LIST),
    _about_content(
        "routing_keys",
        Stage.HEADER,
        "all routing keys that messages get by it",
        _every(routing_keys_of),
        AttributeKind.LIST,
    ),
    _about_method("arguments", "the table of declare, bind and consume", _of_method("arguments"), AttributeKind.TABLE),
    _about_moment("fields", "all fields of the method, under the specification's names", _fields, AttributeKind.TABLE),
    _about_client("vhost", "the virtual host, once the client has opened it", _of_client("vhost")),
    _about_client("user", "the login name, once the client has sent it", _of_client("user")),
    _about_client("client.address", "the IP address it comes from", _of_client("address")),
    _about_client("client.port", "the port it comes from", _of_client("port"), AttributeKind.NUMBER),
    _about_client(
        "client.properties", "its client properties", lambda context: context.client.properties, AttributeKind.TABLE
    ),
    *[
        _about_client(path, "the name that its client properties give the connection", _of_client("name"))
        for path in ALIASES
    ],
    _about_client("listener", "HOST:PORT of the listener that the client connected to", _of_client("listener")),
    _about_client("upstream", "HOST:PORT of the broker", _of_client("upstream")),
    _about_client("tls.subject", "the subject of the client's certificate", _of_client("tls_subject")),
    _about_client("tls.sni", "the server name that the client requested", _of_client("sni")),
    _about_moment("channel.number", "the channel's number; 0 for the connection itself", _of_channel("number")),
    _about_moment(
        "channel.is_confirming", "true after confirm.select", _of_channel("is_confirming"), AttributeKind.FLAG
    ),
    _about_moment(
        "channel.is_transactional", "true after tx.select", _of_channel("is_transactional"), AttributeKind.FLAG
    ),
    _about_moment("channel.consumers", "how many consumers it has", _of_channel("consumers")),
    _about_moment("channel.unacked", "deliveries that the client has not settled", _of_channel("unacked")),
    _about_moment(
        "tags", "the words that `tag` rules have added", lambda context: list(context.tags), AttributeKind.LIST
    ),
    _about_moment("time", "when it arrived: a timestamp, in UTC", lambda context: context.time, AttributeKind.TIME),
    _about_content("size", Stage.HEADER, "the size of the body in bytes", _size, AttributeKind.NUMBER),
    _about_content("headers", Stage.HEADER, "the message's headers", _headers, AttributeKind.TABLE),
    _about_content("body", Stage.BODY, "the body as text", body_text),
    _about_content("json", Stage.BODY, "the body as JSON", body_json, AttributeKind.ANYTHING),
]

_NUMBERS = {"delivery_mode", "priority", "timestamp"}
for _field in Properties.__struct_fields__:
    if _field != "headers":
        _kind = AttributeKind.NUMBER if _field in _NUMBERS else AttributeKind.TEXT
        _ALL.append(_about_content(f"properties.{_field}", Stage.HEADER, "of the message", _of_property(_field), _kind))

NAMES: dict[str, Attribute] = {name.path: name for name in _ALL}
"""All attributes by their dotted names."""

SENT_LATER = frozenset({"user", "vhost", "client.properties", *ALIASES})
"""Attributes that are unknown when a client connects."""

GROUPS: frozenset[str] = frozenset(path.partition(".")[0] for path in NAMES if "." in path)
"""Prefixes of dotted names, which have no value by themselves."""


_NOTHING = Command(0, ConnectionOpenOk())


def client_value(path: str, client: Client) -> Any:
    """Return a `CLIENT` attribute's value for a client, whatever the command."""
    return NAMES[path].value(CommandContext(sender=CLIENT, command=_NOTHING, client=client))


def builtin_value(value: Any) -> Any:
    """Convert a value for CEL and JSON: tables to dictionaries, arrays to lists, text to valid UTF-8."""
    if value is None or isinstance(value, (bool, int, float, bytes)):
        return value
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return {builtin_value(key): builtin_value(each) for key, each in value.items()}
    if isinstance(value, (Array, list, tuple)):
        return [builtin_value(each) for each in value]
    return float(value)
