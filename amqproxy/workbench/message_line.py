"""A message as one line of JSON: for readers and programs, and complete enough to publish it again."""

from __future__ import annotations

import struct
from binascii import a2b_base64, b2a_base64
from collections.abc import Mapping
from typing import Any

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import HEADER, Frame, encode_frame
from amqproxy.amqp091.methods import BasicGetOk
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.wire import Field, Table
from amqproxy.moving.message_forwarder import CHANNEL
from amqproxy.taps.record import encoded, json_mapping, json_value
from amqproxy.workbench.held_message import HeldMessage

LONGEST_NAME = 255
"""Bytes of the longest exchange name or routing key."""


class LineError(ValueError):
    """A line is not a message; the text has the reason."""


class MessageLine(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A message of a queue.

    `position` counts from 0, the head of the queue at the start of the run. A body or name that is not text in UTF-8 is
    `{"base64": "…"}`, and so is `header`: the content header as it was received, which keeps the types of headers that
    JSON has no words for. `properties` say the same to readers; who changes one there changes it in the message.
    `redelivered` and `delivery_count` are facts about the queue, and not published.
    """

    position: int | None = None
    queue: str = ""
    exchange: Any = ""
    routing_key: Any = ""
    redelivered: bool = False
    delivery_count: int = 0
    properties: dict[str, Any] = {}
    header: dict[str, str] | None = None
    size: int = 0
    body: Any = ""
    decoded: dict[str, Any] | None = None

    def to_json(self) -> bytes:
        """Return the line without a newline."""
        return encoded(self)


def line_of(message: HeldMessage, queue: str, decoded: dict[str, Any] | None = None) -> MessageLine:
    """Return the line of a message."""
    properties, body = message.properties, message.body
    header = ContentHeader(len(body), properties).encode()
    return MessageLine(
        position=message.position,
        queue=queue,
        exchange=json_value(message.exchange),
        routing_key=json_value(message.routing_key),
        redelivered=message.is_redelivered,
        delivery_count=message.delivery_count,
        properties=json_mapping(properties.present()),
        header={"base64": b2a_base64(header, newline=False).decode()},
        size=len(body),
        body=json_value(body),
        decoded=decoded,
    )


_decode = msgspec.json.Decoder(MessageLine).decode


def read_line(line: bytes, position: int = 0, before: Properties | None = None) -> HeldMessage:
    """Return the message of a line, at this position of its file; raise `LineError`.

    Properties that are equal to those `before`, or in the line's `header`, keep their wire types.
    """
    try:
        found = _decode(line)
        body = _bytes(found.body, "body")
        exchange, routing_key = _name(found.exchange, "exchange"), _name(found.routing_key, "routing key")
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError) as error:
        raise LineError(f"it is not a message: {error}") from None
    method = BasicGetOk(exchange=exchange, routing_key=routing_key, redelivered=found.redelivered)
    properties = _properties(found) if before is None else _changed(before, found.properties)
    return HeldMessage(Command(CHANNEL, method, properties, body), position)


def _properties(line: MessageLine) -> Properties:
    if line.header is not None:
        try:
            payload = a2b_base64(line.header["base64"], strict_mode=True)
            properties = Frame(encode_frame(HEADER, 1, payload)).header.properties
        except (KeyError, ValueError, ProtocolError) as error:
            raise LineError(f"its header cannot be read: {error}") from None
        return _changed(properties, line.properties) if line.properties else properties
    return properties_of(line.properties)


def _changed(before: Properties, given: dict[str, Any]) -> Properties:
    """Return properties of their form in JSON; those that say the same as `before` are as there, each header by itself.

    Raise `LineError`.
    """
    old = msgspec.json.decode(encoded(json_mapping(before.present())))
    if old == given:
        return before
    same = {name for name, value in given.items() if name != "headers" and name in old and old[name] == value}
    headers = given.get("headers")
    others = {name: value for name, value in given.items() if name not in same}
    if isinstance(headers, dict):
        del others["headers"]
    after = properties_of(others)
    values = {name: getattr(before if name in same else after, name) for name in given}
    if isinstance(headers, dict):
        values["headers"] = _changed_headers(before.headers or Table(), old.get("headers", {}), headers)
    return Properties(**values)


def _changed_headers(before: Table, old: dict[str, Any], given: dict[str, Any]) -> Table:
    """Return the headers `given`; `old` is the form of those before."""
    fields: list[Field] = []
    for name, value in given.items():
        if name in old and old[name] == value:
            fields += [each for each in before.fields if name in json_mapping({each.name: None})]
        else:
            fields += (properties_of({"headers": {name: value}}).headers or Table()).fields
    return Table(fields)


def properties_of(given: Mapping[str, Any]) -> Properties:
    """Return properties of their form in JSON; raise `LineError`."""
    values = dict(given)
    headers = values.pop("headers", None)
    if unknown := values.keys() - set(Properties.__struct_fields__):
        raise LineError(f"there is no property {', '.join(sorted(unknown))}")
    try:
        table = None if headers is None else Table({name: _wire(value) for name, value in headers.items()})
        properties = msgspec.convert(values | {"headers": None}, Properties)
        properties = msgspec.structs.replace(properties, headers=table)
        ContentHeader(0, properties).encode()
    except (ProtocolError, ValueError, TypeError, AttributeError, OverflowError, struct.error) as error:
        raise LineError(f"its properties are not right: {error}") from None
    return properties


def _wire(value: Any) -> Any:
    """Return a value of a header, of its form in JSON."""
    if isinstance(value, dict):
        if value.keys() == {"base64"}:
            return a2b_base64(value["base64"], strict_mode=True)
        return {name: _wire(each) for name, each in value.items()}
    return [_wire(each) for each in value] if isinstance(value, list) else value


def _name(value: Any, field: str) -> str:
    name = _bytes(value, field)
    if len(name) > LONGEST_NAME:
        raise LineError(f"its {field} has {len(name)} bytes, the limit is {LONGEST_NAME}")
    return name.decode("utf-8", "surrogateescape")


def _bytes(value: Any, field: str) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"} and isinstance(value["base64"], str):
        return a2b_base64(value["base64"], strict_mode=True)
    raise LineError(f"its {field} is neither a text nor base64")
