"""A 0-10 frame as the values of a row of frames, under the names of their 0-9-1 equivalents.

The exchange of a transfer is the destination of a client's, and in the header of a server's; the destination of a
subscription is the consumer tag; a command id takes the place of a 0-9-1 delivery tag.
"""

from __future__ import annotations

from typing import Any

from amqproxy.amqp010.commands import MessageAccept, MessageReject, MessageRelease, MessageTransfer
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import BODY, HEADER, Frame
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.properties import Header
from amqproxy.peer import CLIENT, SERVER
from amqproxy.taps.amqp010.record import plain
from amqproxy.taps.amqp010.transfers import TransferProperties
from amqproxy.taps.record import encoded

_ARGUMENTS = ("exchange", "routing_key", "queue", "consumer_tag", "delivery_tag", "multiple", "redelivered", "requeue")
ARGUMENT_COLUMNS = {name: name for name in (*_ARGUMENTS, "mandatory", "reply_code", "reply_text")} | {
    "binding_key": "routing_key",
    "destination": "consumer_tag",
    "error_code": "reply_code",
    "code": "reply_code",
    "description": "reply_text",
    "text": "reply_text",
}
"""Columns by argument name."""

SETTLEMENTS = (MessageAccept, MessageReject, MessageRelease)
"""Commands that settle transfers, named by a set of command ids."""

_CONTENT = ("content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to", "expiration")
PROPERTY_COLUMNS = {name: name for name in (*_CONTENT, "message_id", "user_id", "app_id")} | {
    "message_timestamp": "timestamp",
    "message_type": "type",
}
"""Property names of `TransferProperties` by column."""


def row_of(frame: Frame, sender: str, command_id: int | None) -> dict[str, Any]:
    """Return the argument and property columns of a frame; empty if it is malformed, or only part of a segment."""
    if frame.kind == BODY or not frame.is_whole_segment:
        return {}
    try:
        value = frame.value
    except ProtocolError:
        return {}
    row = _header_row(value, sender) if frame.kind == HEADER else _method_row(value, sender, command_id)
    return {name: _shown(each) if isinstance(each, str) else each for name, each in row.items()}


def _shown(text: str) -> str:
    """Escape the bytes of a text that are not UTF-8."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half of a UTF-16 surrogate pair
        return text.encode("utf-8", "backslashreplace").decode()


def _method_row(method: Method, sender: str, command_id: int | None) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, field in method.spoken:
        column = ARGUMENT_COLUMNS.get(name)
        if column is not None and (value := getattr(method, field)) is not None:
            row[column] = value
    if isinstance(method, MessageTransfer):
        if sender == CLIENT:
            row["exchange"] = row.pop("consumer_tag", "")
        else:
            row["delivery_tag"] = command_id
    elif isinstance(method, SETTLEMENTS) and method.transfers is not None and method.transfers.ranges:
        ranges = method.transfers.ranges
        row["delivery_tag"] = ranges[-1][1]
        row["multiple"] = len(ranges) > 1 or ranges[0][0] != ranges[0][1]
    return row


def _header_row(header: Header, sender: str) -> dict[str, Any]:
    properties = TransferProperties(header)
    row = {column: getattr(properties, name) for column, name in PROPERTY_COLUMNS.items()}
    if properties.headers is not None:
        row["headers"] = encoded(plain(properties.headers))
    delivery, message = header.delivery, header.message
    if delivery is not None:
        row["exchange"], row["routing_key"] = delivery.exchange, delivery.routing_key
        if sender == SERVER:
            row["redelivered"] = delivery.redelivered
    if message is not None:
        row["body_size"] = message.content_length
    return row
