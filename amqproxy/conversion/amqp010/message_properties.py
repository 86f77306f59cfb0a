"""Conversion between AMQP 0-10 and 0-9-1 message properties, as far as each can express them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from amqproxy.amqp010.properties import DeliveryProperties, MessageProperties, ReplyTo
from amqproxy.amqp091.properties import NO_PROPERTIES, Properties
from amqproxy.amqp091.wire import Field, Table
from amqproxy.conversion.amqp010.header_tables import map_of, table_of

JMS_TYPE = "x-jms-type"
"""Header in which Qpid's JMS client sends the message type, a property in 0-9-1."""

MESSAGE_ID, CLUSTER_ID = "x-amqp-0-9-1.message-id", "x-amqp-0-9-1.cluster-id"
"""Headers for 0-10 clients with a message-id that is not a UUID, and the cluster-id, which 0-10 lacks."""

MILLISECONDS = 100_000_000_000
"""Value from which a datetime is in milliseconds, as sent by Qpid's Java peers, instead of seconds."""

MOST_TEXT = 255
"""Maximum length of a short string, in bytes."""

HIGHEST_PRIORITY = 9

NO_DELIVERY, NO_MESSAGE = DeliveryProperties(), MessageProperties()


def plain_properties(
    delivery: DeliveryProperties, message: MessageProperties, *, most_text: int = MOST_TEXT
) -> Properties:
    """Return the properties as far as 0-9-1 can express them; texts above `most_text` bytes are left out."""
    headers = None if message.application_headers is None else table_of(message.application_headers)
    type_ = message_id = cluster_id = None
    if headers is not None:
        type_, message_id, cluster_id = (
            _text(headers.get(name), most_text) for name in (JMS_TYPE, MESSAGE_ID, CLUSTER_ID)
        )
        gone = {CLUSTER_ID} if cluster_id is not None else set()
        if message_id is not None and message.message_id is None:
            gone.add(MESSAGE_ID)
        if gone:
            headers = Table([field for field in headers.fields if field.name not in gone])
        headers = headers if len(headers) else None
    if message.message_id is not None:
        message_id = str(message.message_id)
    return Properties(
        content_type=_text(message.content_type, most_text),
        content_encoding=_text(message.content_encoding, most_text),
        headers=headers,
        delivery_mode=delivery.delivery_mode if delivery.delivery_mode in (1, 2) else None,
        priority=delivery.priority,
        correlation_id=_text(message.correlation_id, most_text),
        reply_to=None if message.reply_to is None else message.reply_to.routing_key,
        expiration=None if delivery.ttl is None else str(delivery.ttl),
        message_id=message_id,
        timestamp=_seconds(delivery.timestamp),
        type=type_,
        user_id=_text(message.user_id, most_text),
        app_id=_text(message.app_id, most_text),
        cluster_id=cluster_id,
    )


def plain_structs(properties: Properties) -> tuple[DeliveryProperties, MessageProperties]:
    """Return the 0-10 structs of these properties, without a message's address and length."""
    if properties is NO_PROPERTIES:
        return NO_DELIVERY, NO_MESSAGE
    headers = headers_of(properties)
    timestamp = properties.timestamp
    delivery = DeliveryProperties(
        priority=None if properties.priority is None else min(properties.priority, HIGHEST_PRIORITY),
        delivery_mode=properties.delivery_mode,
        ttl=_number(properties.expiration),
        timestamp=timestamp * 1000 if timestamp is not None and timestamp < (1 << 63) // 1000 else None,
    )
    return delivery, MessageProperties(
        message_id=None if properties.message_id is None else _uuid(properties.message_id),
        correlation_id=_binary(properties.correlation_id),
        reply_to=None if properties.reply_to is None else ReplyTo("", properties.reply_to),
        content_type=properties.content_type,
        content_encoding=properties.content_encoding,
        user_id=_binary(properties.user_id),
        app_id=_binary(properties.app_id),
        application_headers=None if headers is None else map_of(headers),
    )


def headers_of(properties: Properties) -> Table | None:
    """Return the headers, including the properties that 0-10 carries as headers."""
    headers, more = properties.headers, []
    if properties.message_id is not None and _uuid(properties.message_id) is None:
        more.append(Field(MESSAGE_ID, "S", properties.message_id))
    if properties.type is not None and (headers is None or JMS_TYPE not in headers):
        more.append(Field(JMS_TYPE, "S", properties.type))
    if properties.cluster_id is not None:
        more.append(Field(CLUSTER_ID, "S", properties.cluster_id))
    return Table([*(() if headers is None else headers.fields), *more]) if more else headers


def _text(value: Any, most: int) -> str | None:
    """Return a text or bytes as a text, if it is at most `most` bytes long."""
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogateescape")
    elif isinstance(value, bytes):
        data = value
    else:
        return None
    return data.decode("utf-8", "surrogateescape") if len(data) <= most else None


def _binary(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _uuid(text: str) -> UUID | None:
    """Return the UUID with exactly this text."""
    if len(text) != 36:
        return None
    try:
        found = UUID(text)
    except ValueError:
        return None
    return found if str(found) == text else None


def _number(text: str | None) -> int | None:
    """Return an expiration in milliseconds."""
    if text is None or not text.isascii() or not text.isdigit():
        return None
    number = int(text)
    return number if number < 1 << 64 else None


def _seconds(datetime: int | None) -> int | None:
    """Convert a datetime to a 0-9-1 timestamp, which is never before 1970."""
    if datetime is None or datetime < 0:
        return None
    return datetime // 1000 if datetime >= MILLISECONDS else datetime
