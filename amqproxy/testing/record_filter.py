"""CEL filter for recorded messages and requests, with the names of a rule's `when`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from amqproxy.rules.context import Client
from amqproxy.rules.matching.attributes import NAMES, AttributeSource, client_value
from amqproxy.rules.matching.filters import FilterFailed, compiled
from amqproxy.taps.message_record import MessageRecord, whole_body

_METHODS = {
    "publish": "basic.publish",
    "deliver": "basic.deliver",
    "get": "basic.get-ok",
    "return": "basic.return",
}
"""Methods of records that are about a message."""

_FIELDS = ("exchange", "routing_key", "queue", "consumer_tag", "delivery_tag", "redelivered", "mandatory")
"""Fields of a message record that come from its method."""


class RecordFilter:
    """A CEL expression; raise `ValueError` with the place if it is wrong."""

    def __init__(self, expression: str) -> None:
        __tracebackhide__ = True
        try:
            self._filter = compiled(expression)
        except ValueError as error:
            raise ValueError(str(error)) from None  # without the compiler's frames, in the report of a test

    def holds(self, record: MessageRecord, client: Client) -> bool:
        """Whether the expression is true for the message or request of `client`; false if it cannot be evaluated."""
        if record.type not in _METHODS and record.type != "request":
            return False
        try:
            return self._filter.holds(lambda path: _value(path, record, client))
        except FilterFailed:
            return False


def _value(path: str, record: MessageRecord, client: Client) -> Any:
    """Return the value of an attribute; `None` if the record lacks it."""
    group, _, name = path.partition(".")
    if group == "properties":
        return (record.properties or {}).get(name)
    if NAMES[path].source is AttributeSource.CLIENT:
        return client_value(path, client)
    read = _READ.get(path)
    if read is not None:
        return read(record)
    fields = _fields(record)
    if path == "exchange":
        return fields.get("exchange", fields.get("source"))
    return fields.get(path) if path in ("destination", "queue", "routing_key", "consumer_tag", "arguments") else None


def _fields(record: MessageRecord) -> Mapping[str, Any]:
    if record.type == "request":  # only its reply may have been seen
        return (record.arguments if record.method else record.reply_arguments) or {}
    return {name: value for name in _FIELDS if (value := getattr(record, name)) is not None}


def _names(record: MessageRecord, *fields: str) -> list[str]:
    found = _fields(record)
    return [found[field] for field in fields if isinstance(found.get(field), str)]


def _headers(record: MessageRecord) -> Mapping[str, Any] | None:
    return None if record.size is None else (record.properties or {}).get("headers", {})


def _text(record: MessageRecord) -> str | None:
    body = whole_body(record.body, record.size)
    return None if body is None else body.decode("utf-8", "replace")


def _json(record: MessageRecord) -> Any:
    body = whole_body(record.body, record.size)
    try:
        return None if body is None else msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


_READ: dict[str, Callable[[MessageRecord], Any]] = {
    "sender": lambda record: record.sender,
    "method": lambda record: _METHODS.get(record.type, record.method or record.reply),
    "exchanges": lambda record: _names(record, "exchange", "source", "destination"),
    "queues": lambda record: _names(record, "queue"),
    "routing_keys": lambda record: _names(record, "routing_key"),
    "fields": _fields,
    "channel.number": lambda record: record.channel or 0,
    "tags": lambda record: list(record.tags or ()),
    "time": lambda record: record.ts_ns / 1e9,
    "size": lambda record: record.size,
    "headers": _headers,
    "body": _text,
    "json": _json,
}
