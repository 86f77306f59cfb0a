"""Conversion of a transfer's header to the 0-9-1 content header that queues and the disk hold, and back.

What 0-9-1 cannot express (see the table in docs/amqp-0-10.md) is encoded into one header, `ORIGINAL`, in those messages
only that have such content: so a 0-10 client receives what a 0-10 client has sent. A value that has changed meanwhile,
such as a dead letter's headers, takes precedence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from amqproxy.amqp010.errors import ProtocolError as ProtocolError010
from amqproxy.amqp010.properties import DeliveryProperties, MessageProperties
from amqproxy.amqp010.structs import Struct
from amqproxy.amqp010.wire import decode_structs
from amqproxy.amqp091.properties import NO_PROPERTIES, Properties
from amqproxy.amqp091.wire import Field, Table
from amqproxy.conversion.amqp010.header_tables import lost_in_table, merged, table_of
from amqproxy.conversion.amqp010.message_properties import NO_DELIVERY, NO_MESSAGE, plain_properties, plain_structs

ORIGINAL = "x-amqp-0-10"
"""The header that holds what 0-9-1 cannot express, as the structs of a header segment."""

_KEPT = ("redelivered", "priority", "delivery_mode", "ttl", "timestamp", "resume_id", "resume_ttl")
"""Delivery properties that a receiver gets as they were sent.

The others are the broker's, or are in a message's address.
"""

S = TypeVar("S", bound=Struct)


def properties_of(structs: Iterable[Any]) -> Properties:
    """Return the 0-9-1 properties for a header segment with these structs."""
    delivery, message, others = _sorted(structs)
    plain = plain_properties(delivery, message)
    back_delivery, back_message = plain_structs(plain)
    lost = b"".join([each.encode() for each in others])
    changed = {
        name: value for name in _KEPT if (value := getattr(delivery, name)) and value != getattr(back_delivery, name)
    }
    if changed:
        lost += DeliveryProperties(**changed).encode()
    changed = {
        name: value
        for name in MessageProperties.fields
        if name not in ("content_length", "application_headers")
        and (value := getattr(message, name)) is not None
        and value != getattr(back_message, name)
    }
    headers = message.application_headers
    if headers is not None and (found := lost_in_table(headers) if len(headers) else headers) is not None:
        changed["application_headers"] = found
    if changed:
        lost += MessageProperties(**changed).encode()
    if not lost:
        return plain
    fields = () if plain.headers is None else plain.headers.fields
    return msgspec.structs.replace(plain, headers=Table([*fields, Field(ORIGINAL, "x", lost)]))


def structs_of(properties: Properties) -> tuple[DeliveryProperties, MessageProperties, tuple[Any, ...]]:
    """Return the structs of the header segment for these properties, without the message's address and length.

    The last item holds the structs that the specification does not have.
    """
    if properties is NO_PROPERTIES:
        return NO_DELIVERY, NO_MESSAGE, ()
    headers = properties.headers
    lost = None if headers is None else headers.get(ORIGINAL)
    if not isinstance(lost, bytes):
        return (*plain_structs(properties), ())
    assert headers is not None
    table = Table([field for field in headers.fields if field.name != ORIGINAL])
    plain = msgspec.structs.replace(properties, headers=table if len(table) else None)
    back_delivery, back_message = plain_structs(plain)
    try:
        delivery, message, others = _sorted(decode_structs(lost))
    except ProtocolError010:  # a 0-9-1 client wrote it
        return back_delivery, back_message, ()
    delivery_was = {name: value for name in _KEPT if (value := getattr(delivery, name))}
    message_was = {name: value for name, value in message.present().items() if name != "content_length"}
    if message.application_headers is not None:
        message_was["application_headers"] = merged(_headers(back_message), message.application_headers)
    return _replaced(back_delivery, delivery_was), _replaced(back_message, message_was), others


def _headers(message: MessageProperties) -> Table:
    return Table() if message.application_headers is None else table_of(message.application_headers)


def _replaced(struct: S, values: dict[str, Any]) -> S:
    return msgspec.structs.replace(struct, **values) if values else struct


def _sorted(structs: Iterable[Any]) -> tuple[DeliveryProperties, MessageProperties, tuple[Any, ...]]:
    """Return the two known structs, and all others."""
    delivery, message = NO_DELIVERY, NO_MESSAGE
    others = []
    for each in structs:
        if isinstance(each, DeliveryProperties):
            delivery = each
        elif isinstance(each, MessageProperties):
            message = each
        else:
            others.append(each)
    return delivery, message, tuple(others)


def expiration(expires_at: float) -> int | None:
    """Return a message's expiration in milliseconds, as Broker-J has it; None if it never expires."""
    return None if math.isinf(expires_at) else int(expires_at * 1000)
