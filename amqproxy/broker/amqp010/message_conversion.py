"""The header of a transfer as a content header of AMQP 0-9-1, which is what queues and the disk hold, and back again.

What 0-9-1 cannot express (see the table in docs/amqp-0-10.md) is encoded into one header, `ORIGINAL`, in those messages
only that have such a thing: so a 0-10 client gets what a 0-10 client has sent. Where something has changed meanwhile,
as a dead letter's headers have, what is there now counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from amqproxy.amqp010.errors import ProtocolError as ProtocolError010
from amqproxy.amqp010.properties import DeliveryProperties, MessageProperties, ReplyTo
from amqproxy.amqp010.structs import Struct
from amqproxy.amqp010.wire import decode_structs
from amqproxy.amqp091.properties import NO_PROPERTIES, Properties
from amqproxy.amqp091.wire import Field, Table
from amqproxy.broker.amqp010.header_tables import lost_in_table, map_of, merged, table_of

ORIGINAL = "x-amqp-0-10"
"""The header that has, as the structs of a header segment, what 0-9-1 cannot express."""

JMS_TYPE = "x-jms-type"
"""Where Qpid's JMS client has the type of a message, which 0-9-1 has among its properties."""

MESSAGE_ID, CLUSTER_ID = "x-amqp-0-9-1.message-id", "x-amqp-0-9-1.cluster-id"
"""Where a 0-10 client finds a message-id that is no uuid, and the cluster-id, which 0-10 does not have."""

MILLISECONDS = 100_000_000_000
"""A datetime from here on is in milliseconds, as Qpid's Java peers send it, and not in seconds."""

MOST_TEXT = 255
"""Bytes of a short string."""

HIGHEST_PRIORITY = 9

_KEPT = ("redelivered", "priority", "delivery_mode", "ttl", "timestamp", "resume_id", "resume_ttl")
"""The delivery properties that a receiver is to get as they were sent; the others are the broker's, or are in a
message's address.
"""

S = TypeVar("S", bound=Struct)


def properties_of(structs: Iterable[Any]) -> Properties:
    """The properties of 0-9-1 that a header segment with these structs comes to."""
    delivery, message, others = _sorted(structs)
    plain = _properties(delivery, message)
    back_delivery, back_message = _plain_structs(plain)
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
    """The structs of the header segment for a message with these properties, without its address and length; the last
    are those that the specification does not have.
    """
    if properties is NO_PROPERTIES:
        return _NO_DELIVERY, _NO_MESSAGE, ()
    headers = properties.headers
    lost = None if headers is None else headers.get(ORIGINAL)
    if not isinstance(lost, bytes):
        return (*_plain_structs(properties), ())
    assert headers is not None
    table = Table([field for field in headers.fields if field.name != ORIGINAL])
    plain = msgspec.structs.replace(properties, headers=table if len(table) else None)
    back_delivery, back_message = _plain_structs(plain)
    try:
        delivery, message, others = _sorted(decode_structs(lost, 0, len(lost)))
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


_NO_DELIVERY, _NO_MESSAGE = DeliveryProperties(), MessageProperties()


def _sorted(structs: Iterable[Any]) -> tuple[DeliveryProperties, MessageProperties, tuple[Any, ...]]:
    """The two known structs, and all others."""
    delivery, message = _NO_DELIVERY, _NO_MESSAGE
    others = []
    for each in structs:
        if isinstance(each, DeliveryProperties):
            delivery = each
        elif isinstance(each, MessageProperties):
            message = each
        else:
            others.append(each)
    return delivery, message, tuple(others)


def _properties(delivery: DeliveryProperties, message: MessageProperties) -> Properties:
    """What 0-9-1 can express."""
    headers = None if message.application_headers is None else table_of(message.application_headers)
    type_ = message_id = cluster_id = None
    if headers is not None:
        type_, message_id, cluster_id = (_text(headers.get(name)) for name in (JMS_TYPE, MESSAGE_ID, CLUSTER_ID))
        gone = {CLUSTER_ID} if cluster_id is not None else set()
        if message_id is not None and message.message_id is None:
            gone.add(MESSAGE_ID)
        if gone:
            headers = Table([field for field in headers.fields if field.name not in gone])
        headers = headers if len(headers) else None
    if message.message_id is not None:
        message_id = str(message.message_id)
    return Properties(
        content_type=_text(message.content_type),
        content_encoding=_text(message.content_encoding),
        headers=headers,
        delivery_mode=delivery.delivery_mode if delivery.delivery_mode in (1, 2) else None,
        priority=delivery.priority,
        correlation_id=_text(message.correlation_id),
        reply_to=None if message.reply_to is None else message.reply_to.routing_key,
        expiration=None if delivery.ttl is None else str(delivery.ttl),
        message_id=message_id,
        timestamp=None if delivery.timestamp is None else _seconds(delivery.timestamp),
        type=type_,
        user_id=_text(message.user_id),
        app_id=_text(message.app_id),
        cluster_id=cluster_id,
    )


def _plain_structs(properties: Properties) -> tuple[DeliveryProperties, MessageProperties]:
    """What 0-10 has for these properties."""
    if properties is NO_PROPERTIES:
        return _NO_DELIVERY, _NO_MESSAGE
    headers, more = properties.headers, []
    message_id = None
    if properties.message_id is not None:
        message_id = _uuid(properties.message_id)
        if message_id is None:
            more.append(Field(MESSAGE_ID, "S", properties.message_id))
    if properties.type is not None and (headers is None or JMS_TYPE not in headers):
        more.append(Field(JMS_TYPE, "S", properties.type))
    if properties.cluster_id is not None:
        more.append(Field(CLUSTER_ID, "S", properties.cluster_id))
    if more:
        headers = Table([*(() if headers is None else headers.fields), *more])
    timestamp = properties.timestamp
    delivery = DeliveryProperties(
        priority=None if properties.priority is None else min(properties.priority, HIGHEST_PRIORITY),
        delivery_mode=properties.delivery_mode,
        ttl=_number(properties.expiration),
        timestamp=timestamp * 1000 if timestamp is not None and timestamp < (1 << 64) // 1000 else None,
    )
    return delivery, MessageProperties(
        message_id=message_id,
        correlation_id=_binary(properties.correlation_id),
        reply_to=None if properties.reply_to is None else ReplyTo("", properties.reply_to),
        content_type=properties.content_type,
        content_encoding=properties.content_encoding,
        user_id=_binary(properties.user_id),
        app_id=_binary(properties.app_id),
        application_headers=None if headers is None else map_of(headers),
    )


def _text(value: Any) -> str | None:
    """A text or bytes as a short string, where it fits."""
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogateescape")
    elif isinstance(value, bytes):
        data = value
    else:
        return None
    return data.decode("utf-8", "surrogateescape") if len(data) <= MOST_TEXT else None


def _binary(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _uuid(text: str) -> UUID | None:
    """The uuid that is written so, and not otherwise."""
    if len(text) != 36:
        return None
    try:
        found = UUID(text)
    except ValueError:
        return None
    return found if str(found) == text else None


def _number(text: str | None) -> int | None:
    """An expiration in milliseconds."""
    if text is None or not text.isascii() or not text.isdigit():
        return None
    number = int(text)
    return number if number < 1 << 64 else None


def _seconds(datetime: int) -> int:
    return datetime // 1000 if datetime >= MILLISECONDS else datetime


def expiration(expires_at: float) -> int | None:
    """When a message's time is over, in milliseconds as Broker-J has it; None where it never is."""
    return None if math.isinf(expires_at) else int(expires_at * 1000)
