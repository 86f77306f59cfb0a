"""Views of AMQP 0-10 message.transfer as basic.publish or basic.deliver, and back."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from amqproxy.amqp010.command_ids import id_of
from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.properties import NO_PROPERTIES as NO_HEADER
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties, ReplyTo
from amqproxy.amqp010.wire import Map
from amqproxy.amqp091.methods import BasicDeliver, BasicPublish, Method
from amqproxy.amqp091.properties import Properties
from amqproxy.conversion.amqp010.header_tables import merged
from amqproxy.conversion.amqp010.message_properties import (
    HIGHEST_PRIORITY,
    MOST_TEXT,
    NO_DELIVERY,
    NO_MESSAGE,
    headers_of,
    plain_properties,
    plain_structs,
)
from amqproxy.conversion.amqp010.method_shape import changed_fields
from amqproxy.conversion.inexpressible import Inexpressible
from amqproxy.conversion.view_fields import FALLS_BACK
from amqproxy.peer import CLIENT, Peer

MAX_TEXT = 65_535
"""Maximum length of a 0-10 text in a property or a header, in bytes."""

_TEXTS = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "message_id",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)
"""Properties that may be longer in 0-10 than in 0-9-1."""

_IN_HEADERS = frozenset({"headers", "message_id", "type", "cluster_id"})
"""Properties that are, or may be, carried as headers in 0-10."""

_NO_MAP = Map()


def transfer_view(
    sender: Peer, transfer: MessageTransfer, header: Header | None, position: int, *, falls_back: bool = False
) -> Method:
    """Return the publish or delivery of a transfer; the command's `position` serves as the delivery tag.

    With `falls_back`, the view is marked as a publish whose destination may not be an exchange.
    """
    delivery = (header and header.delivery) or NO_DELIVERY
    if sender is CLIENT:
        return BasicPublish(
            reserved_1=FALLS_BACK if falls_back else 0,
            exchange=transfer.destination or "",
            routing_key=delivery.routing_key or "",
            mandatory=not delivery.discard_unroutable,
            immediate=delivery.immediate,
        )
    return BasicDeliver(
        consumer_tag=transfer.destination or "",
        delivery_tag=id_of(position),
        redelivered=delivery.redelivered,
        exchange=delivery.exchange or "",
        routing_key=delivery.routing_key or "",
    )


def properties_view(header: Header | None) -> Properties:
    """Return the 0-9-1 properties of a message's header, whose texts may be longer than 0-9-1 allows.

    A reply-to with an exchange is `exchange/routing_key`.
    """
    if header is None:
        header = NO_HEADER
    message = header.message or NO_MESSAGE
    properties = plain_properties(header.delivery or NO_DELIVERY, message, most_text=MAX_TEXT)
    reply_to = message.reply_to
    if reply_to is not None and reply_to.exchange:
        return replace(properties, reply_to=f"{reply_to.exchange}/{reply_to.routing_key or ''}")
    return properties


def without_long_texts(properties: Properties) -> Properties:
    """Remove the texts that are too long for 0-9-1; return the same object if there are none."""
    long = {
        field: None
        for field in _TEXTS
        if (text := getattr(properties, field)) is not None
        and len(text) > MOST_TEXT // 4
        and len(text.encode("utf-8", "surrogateescape")) > MOST_TEXT
    }
    return replace(properties, **long) if long else properties


def changed_transfer(
    sender: Peer, transfer: MessageTransfer, header: Header | None, before: Method, after: Method
) -> tuple[MessageTransfer, Header | None]:
    """Return transfer and header with the differences between the view and its result; raise `Inexpressible`."""
    delivery = (header and header.delivery) or NO_DELIVERY
    places = _PUBLISH if sender is CLIENT else _DELIVER
    of_transfer: dict[str, Any] = {}
    of_delivery: dict[str, Any] = {}
    for field in changed_fields(before, after):
        value = getattr(after, field)
        if field == "reserved_1":  # the mark set above
            continue
        if field == "mandatory":
            of_delivery["discard_unroutable"] = not value
        elif field in places:
            of_delivery[places[field]] = value
        elif field == ("exchange" if sender is CLIENT else "consumer_tag"):
            of_transfer["destination"] = value
        else:
            raise Inexpressible(f"`{field}` of {before.name} cannot be changed in AMQP 0-10")
    if of_transfer:
        transfer = replace(transfer, **of_transfer)
    if of_delivery:
        header = (header or NO_HEADER).replacing(replace(delivery, **of_delivery))
    return transfer, header


_PUBLISH = {"routing_key": "routing_key", "immediate": "immediate"}
_DELIVER = {"redelivered": "redelivered", "exchange": "exchange", "routing_key": "routing_key"}


def changed_header(header: Header | None, before: Properties, after: Properties) -> Header | None:
    """Return the header with the differences between the view of its properties and the result; raise
    `Inexpressible`.
    """
    fields = [field for field in Properties.__struct_fields__ if getattr(before, field) != getattr(after, field)]
    if not fields:
        return header
    _check(after)
    header = header or NO_HEADER
    delivery_was, message_was = header.delivery or NO_DELIVERY, header.message or NO_MESSAGE
    delivery, message = _changed(delivery_was, message_was, fields, after)
    if delivery is not delivery_was:
        header = header.replacing(delivery)
    if message is not message_was:
        header = header.replacing(message)
    return header


def _changed(
    delivery: DeliveryProperties, message: MessageProperties, fields: list[str], after: Properties
) -> tuple[DeliveryProperties, MessageProperties]:
    new_delivery, new_message = plain_structs(after)
    of_delivery: dict[str, Any] = {}
    of_message: dict[str, Any] = {}
    for field in fields:
        if field in _IN_DELIVERY:
            of_delivery[_IN_DELIVERY[field]] = getattr(new_delivery, _IN_DELIVERY[field])
        elif field == "reply_to":
            of_message["reply_to"] = _reply_to(message.reply_to, after.reply_to)
        elif field in _IN_MESSAGE:
            of_message[field] = getattr(new_message, field)
    if _IN_HEADERS & set(fields):
        table = headers_of(after)
        original = message.application_headers
        of_message["message_id"] = new_message.message_id
        if table is not None or original is not None:
            of_message["application_headers"] = _NO_MAP if table is None else merged(table, original or _NO_MAP)
    return (
        replace(delivery, **of_delivery) if of_delivery else delivery,
        replace(message, **of_message) if of_message else message,
    )


_IN_DELIVERY = {"priority": "priority", "delivery_mode": "delivery_mode", "expiration": "ttl", "timestamp": "timestamp"}
_IN_MESSAGE = frozenset({"content_type", "content_encoding", "correlation_id", "user_id", "app_id"})


def _reply_to(original: ReplyTo | None, text: str | None) -> ReplyTo | None:
    if text is None:
        return None
    if original is not None and original.exchange:
        exchange, slash, key = text.partition("/")
        return ReplyTo(exchange, key) if slash else replace(original, exchange="", routing_key=text)
    return replace(original or ReplyTo(""), routing_key=text)


def _check(properties: Properties) -> None:
    if (properties.priority or 0) > HIGHEST_PRIORITY:
        raise Inexpressible(f"a priority is {HIGHEST_PRIORITY} at most in AMQP 0-10")
    delivery, _ = plain_structs(properties)
    if properties.expiration is not None and delivery.ttl is None:
        raise Inexpressible("an expiration is a number of milliseconds in AMQP 0-10")
    if properties.timestamp is not None and delivery.timestamp is None:
        raise Inexpressible("the timestamp is too large for AMQP 0-10")


def with_length(header: Header | None, size: int) -> Header | None:
    """Return the header with the length of another body, if it has a length."""
    message = None if header is None else header.message
    if header is None or message is None or message.content_length is None or message.content_length == size:
        return header
    return header.replacing(replace(message, content_length=size))
