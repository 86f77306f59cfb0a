"""0-10 messages in the form used by events: the facts of a transfer under their 0-9-1 names.

The 0-9-1 methods that carry a message have these fields themselves: `exchange`, `routing_key` and so on. A transfer
has them in its destination, its modes and its header.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.domains import AcceptMode
from amqproxy.amqp010.properties import NO_PROPERTIES, DeliveryProperties, Header, MessageProperties
from amqproxy.amqp010.wire import Map
from amqproxy.taps.amqp010.record import properties as shown_properties

REJECT_TEXTS = {0: "rejected", 1: "unroutable", 2: "no consumer took it at once"}
"""Meaning of the code of a message.reject without a text. Section 10.2, reject-code."""

JMS_TYPE = "x-jms-type"
"""Header in which Qpid's clients send a message's type."""

MILLISECONDS = 100_000_000_000
"""Least datetime taken as milliseconds, as Qpid's Java peers send it; lower ones are seconds."""


class TransferBase(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Fields common to publishes, returns and deliveries; `name` is the command's name."""

    name: ClassVar[str] = MessageTransfer.name
    carries_content: ClassVar[bool] = True

    transfer: MessageTransfer
    exchange: str
    routing_key: str


class TransferPublish(TransferBase, frozen=True, kw_only=True):
    """A client's message.transfer; it is `mandatory` if it must be accepted and must not be discarded as unroutable."""

    mandatory: bool
    immediate: bool

    @staticmethod
    def of(transfer: MessageTransfer, header: Header) -> TransferPublish:
        delivery = header.delivery or _NO_DELIVERY
        return TransferPublish(
            transfer=transfer,
            exchange=transfer.destination or "",
            routing_key=delivery.routing_key or "",
            mandatory=transfer.accept_mode == AcceptMode.EXPLICIT and not delivery.discard_unroutable,
            immediate=delivery.immediate,
        )


class TransferReturn(TransferBase, frozen=True, kw_only=True):
    """A client's message.transfer that the server rejects as unroutable, with the reject's code and text."""

    reply_code: int
    reply_text: str

    @staticmethod
    def of(publish: TransferPublish, code: int, text: str) -> TransferReturn:
        return TransferReturn(
            transfer=publish.transfer,
            exchange=publish.exchange,
            routing_key=publish.routing_key,
            reply_code=code,
            reply_text=text or REJECT_TEXTS.get(code, "rejected"),
        )


class TransferDelivery(TransferBase, frozen=True, kw_only=True):
    """A server's message.transfer; its delivery tag is its command id, `None` if that is unknown.

    `consumer_tag` is the subscription's destination.
    """

    redelivered: bool
    delivery_tag: int | None
    consumer_tag: str

    @staticmethod
    def of(transfer: MessageTransfer, header: Header, command_id: int | None) -> TransferDelivery:
        delivery = header.delivery or _NO_DELIVERY
        return TransferDelivery(
            transfer=transfer,
            exchange=delivery.exchange or "",
            routing_key=delivery.routing_key or "",
            redelivered=delivery.redelivered,
            delivery_tag=command_id,
            consumer_tag=transfer.destination or "",
        )


class TransferProperties(msgspec.Struct, frozen=True, gc=False):
    """Properties in the header of a transfer, under their 0-9-1 names.

    Texts of bytes that are not UTF-8 have surrogates. `reply_to` is the routing key, `expiration` the `ttl`, in
    milliseconds, `timestamp` is in seconds, `type` is the header `JMS_TYPE` of Qpid's clients; `cluster_id` is `None`.
    `headers` are a `Map`.
    """

    header: Header = NO_PROPERTIES

    def present(self) -> dict[str, Any]:
        """Return the message's properties under their 0-10 names, in JSON form."""
        return shown_properties(self.header)

    @property
    def _delivery(self) -> DeliveryProperties:
        return self.header.delivery or _NO_DELIVERY

    @property
    def _message(self) -> MessageProperties:
        return self.header.message or _NO_MESSAGE

    @property
    def content_type(self) -> str | None:
        return self._message.content_type

    @property
    def content_encoding(self) -> str | None:
        return self._message.content_encoding

    @property
    def headers(self) -> Map | None:
        return self._message.application_headers

    @property
    def delivery_mode(self) -> int | None:
        return self._delivery.delivery_mode

    @property
    def priority(self) -> int | None:
        return self._delivery.priority

    @property
    def correlation_id(self) -> str | None:
        return _text(self._message.correlation_id)

    @property
    def reply_to(self) -> str | None:
        reply_to = self._message.reply_to
        return None if reply_to is None else reply_to.routing_key or ""

    @property
    def expiration(self) -> str | None:
        ttl = self._delivery.ttl
        return None if ttl is None else str(ttl)

    @property
    def message_id(self) -> str | None:
        message_id = self._message.message_id
        return None if message_id is None else str(message_id)

    @property
    def timestamp(self) -> int | None:
        timestamp = self._delivery.timestamp
        return timestamp // 1000 if timestamp is not None and timestamp >= MILLISECONDS else timestamp

    @property
    def type(self) -> str | None:
        headers = self.headers
        found = None if headers is None else headers.get(JMS_TYPE)
        return found if isinstance(found, str) else None

    @property
    def user_id(self) -> str | None:
        return _text(self._message.user_id)

    @property
    def app_id(self) -> str | None:
        return _text(self._message.app_id)

    @property
    def cluster_id(self) -> str | None:
        return None


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "surrogateescape")


NO_TRANSFER_PROPERTIES = TransferProperties()
_NO_DELIVERY = DeliveryProperties()
_NO_MESSAGE = MessageProperties()
