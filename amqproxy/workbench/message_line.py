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
from amqproxy.amqp091.wire import Table
from amqproxy.moving.message_forwarder import CHANNEL
from amqproxy.taps.record import encoded, json_mapping, json_value
from amqproxy.workbench.held_message import HeldMessage


class LineError(ValueError):
    """A line is not a message; the text has the reason."""


class MessageLine(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A message of a queue.

    `position` counts from 0, the head of the queue at the start of the run. A body that is not text in UTF-8 is
    `{"base64": "…"}`, and so is `header`: the content header as it was received, which keeps the types of headers that
    JSON has no words for. `properties` say the same to readers; who changes them there changes the message.
    `redelivered` and `delivery_count` are facts about the queue, and not published.
    """

    position: int | None = None
    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
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
        exchange=message.exchange,
        routing_key=message.routing_key,
        redelivered=message.is_redelivered,
        delivery_count=message.delivery_count,
        properties=json_mapping(properties.present()),
        header={"base64": b2a_base64(header, newline=False).decode()},
        size=len(body),
        body=json_value(body),
        decoded=decoded,
    )


_decode = msgspec.json.Decoder(MessageLine).decode


def read_line(line: bytes, position: int = 0) -> HeldMessage:
    """Return the message of a line, at this position of its file; raise `LineError`."""
    try:
        found = _decode(line)
        body = _bytes(found.body)
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError) as error:
        raise LineError(f"it is not a message: {error}") from None
    method = BasicGetOk(exchange=found.exchange, routing_key=found.routing_key, redelivered=found.redelivered)
    return HeldMessage(Command(CHANNEL, method, _properties(found), body), position)


def _properties(line: MessageLine) -> Properties:
    if line.header is not None:
        try:
            payload = a2b_base64(line.header["base64"], strict_mode=True)
            properties = Frame(encode_frame(HEADER, 1, payload)).header.properties
        except (KeyError, ValueError, ProtocolError) as error:
            raise LineError(f"its header cannot be read: {error}") from None
        if not line.properties or json_mapping(properties.present()) == line.properties:
            return properties  # type: ignore[no-any-return]
    return properties_of(line.properties)


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


def _bytes(body: Any) -> bytes:
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, dict) and body.keys() == {"base64"} and isinstance(body["base64"], str):
        return a2b_base64(body["base64"], strict_mode=True)
    raise LineError("its body is neither a text nor base64")
