"""A message on its way: what was published, once, however many queues hold it."""

from __future__ import annotations

import msgspec

from amqproxy.amqp091.properties import NO_PROPERTIES, PROPERTIES, ContentHeader, Properties
from amqproxy.amqp091.wire import Field, Table

PERSISTENT = 2


class Message:
    """One publish. `header` is its content header's payload, `body` all of its bytes.

    `more_keys` are the routing keys that CC and BCC add. The properties are decoded on first use.
    """

    __slots__ = ("_properties", "body", "exchange", "header", "more_keys", "routing_key")

    def __init__(
        self,
        exchange: str,
        routing_key: str,
        header: bytes,
        body: bytes,
        properties: Properties | None = None,
        more_keys: tuple[str, ...] = (),
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.header = header
        self.body = body
        self.more_keys = more_keys
        self._properties = properties

    @classmethod
    def made(
        cls, exchange: str, routing_key: str, properties: Properties, body: bytes, more_keys: tuple[str, ...] = ()
    ) -> Message:
        """A message with other properties than it came with."""
        header = ContentHeader(len(body), properties).encode()
        return cls(exchange, routing_key, header, body, properties, more_keys)

    @property
    def properties(self) -> Properties:
        """`ProtocolError` when they are malformed."""
        if self._properties is None:
            if self.has_properties:
                self._properties = PROPERTIES.of_flagged(self.header, 12, len(self.header))
            else:
                self._properties = NO_PROPERTIES
        return self._properties

    def forget_properties(self) -> None:
        """Keep nothing but the bytes: for a message that may wait for long."""
        self._properties = None

    @property
    def has_properties(self) -> bool:
        """Is there any property at all? Needs no decoding."""
        return self.header[12:14] != b"\x00\x00"

    @property
    def is_persistent(self) -> bool:
        return self.has_properties and self.properties.delivery_mode == PERSISTENT

    @property
    def size(self) -> int:
        return len(self.body)


def published(exchange: str, routing_key: str, header: bytes, body: bytes, properties: Properties | None) -> Message:
    """A message as it came, made without a call: on the way of every publish."""
    message: Message = Message.__new__(Message)
    message.exchange = exchange
    message.routing_key = routing_key
    message.header = header
    message.body = body
    message.more_keys = ()
    message._properties = properties
    return message


def header_with(message: Message, field: Field) -> bytes:
    """The message's content header with one header more, or another in its place."""
    properties = message.properties
    fields = [each for each in properties.headers.fields if each.name != field.name] if properties.headers else []
    properties = msgspec.structs.replace(properties, headers=Table([*fields, field]))
    return ContentHeader(len(message.body), properties).encode()
