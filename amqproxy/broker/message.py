"""A published message, shared by all queues that hold it."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

import msgspec

from amqproxy.amqp091.properties import NO_PROPERTIES, PROPERTIES, ContentHeader, Properties
from amqproxy.amqp091.wire import Field, Table

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

PERSISTENT = 2

MAX_EXPIRATION = 315_360_000_000
"""The longest time to live of a message, in milliseconds: ten years."""

# Property flags as C constants: the delivery mode, and the properties that precede it in the header.
_CONTENT_TYPE = cython.declare(cython.int, 0x8000)
_CONTENT_ENCODING = cython.declare(cython.int, 0x4000)
_HEADERS = cython.declare(cython.int, 0x2000)
_DELIVERY_MODE = cython.declare(cython.int, 0x1000)


@cython.cfunc
@cython.exceptval(check=False)
def _delivery_mode(header: bytes) -> cython.int:
    """Return the delivery mode in a content header's payload; 0 if it has none, -1 if the payload is cut short."""
    p: cython.p_const_uchar = header
    end: cython.Py_ssize_t = len(header)
    at: cython.Py_ssize_t = 14
    size: cython.Py_ssize_t = 0
    flags: cython.int
    i: cython.int
    if end < at:
        return -1
    flags = p[12] << 8 | p[13]
    if not flags & _DELIVERY_MODE:
        return 0
    if flags & _CONTENT_TYPE and at < end:
        at += 1 + p[at]
    if flags & _CONTENT_ENCODING and at < end:
        at += 1 + p[at]
    if flags & _HEADERS:
        if end - at < 4:
            return -1
        for i in range(4):
            size = size << 8 | p[at + i]
        at += 4 + size
    return p[at] if at < end else -1


class Message:
    """One published message: `header` is its content header's payload, `body` its complete body.

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
        """Return a message with an encoded header for these properties."""
        header = ContentHeader(len(body), properties).encode()
        return cls(exchange, routing_key, header, body, properties, more_keys)

    @property
    def properties(self) -> Properties:
        """The decoded properties; raises a `ProtocolError` if they are malformed."""
        if self._properties is None:
            if self.has_properties:
                self._properties = PROPERTIES.of_flagged(self.header, 12, len(self.header))
            else:
                self._properties = NO_PROPERTIES
        return self._properties

    def forget_properties(self) -> None:
        """Drop the decoded properties and keep only the bytes, for a message that may wait for a long time."""
        self._properties = None

    @property
    def has_properties(self) -> bool:
        """Whether any property is present; read from the flags without decoding."""
        return self.header[12:14] != b"\x00\x00"

    @property
    def is_persistent(self) -> bool:
        """Whether the delivery mode is persistent; read without decoding, unless the header is malformed."""
        if self._properties is None:
            mode = _delivery_mode(self.header)
            if mode >= 0:
                return mode == PERSISTENT
        return self.properties.delivery_mode == PERSISTENT

    @property
    def size(self) -> int:
        return len(self.body)


class DeadLetteredMessage(Message):
    """A message that a queue has dead-lettered; `was_delivered` if that shows as redelivered, as in RabbitMQ 4.3.

    Read back from the disk, it is an ordinary message, whose deaths are counted from one if the profile reads none.
    """

    __slots__ = ("was_delivered",)
    was_delivered: bool


def published(exchange: str, routing_key: str, header: bytes, body: bytes, properties: Properties | None) -> Message:
    """Return a message as it was received, created without a call to `__init__`: on the hot path of every publish."""
    message: Message = Message.__new__(Message)
    message.exchange = exchange
    message.routing_key = routing_key
    message.header = header
    message.body = body
    message.more_keys = ()
    message._properties = properties
    return message


def header_with(message: Message, *added: Field) -> bytes:
    """Return the message's content header with header fields added or replaced, and all of them sorted by name."""
    properties = message.properties
    names = [each.name for each in added]
    fields = [each for each in properties.headers.fields if each.name not in names] if properties.headers else []
    fields = sorted([*fields, *added], key=attrgetter("name"))
    properties = msgspec.structs.replace(properties, headers=Table(fields))
    return ContentHeader(len(message.body), properties).encode()


def sorted_fields(fields: Iterable[Field]) -> list[Field]:
    """Return the fields sorted by name, as RabbitMQ 4 keeps them: of those with the same name, the first."""
    first: dict[str, Field] = {}
    for each in fields:
        first.setdefault(each.name, each)
    return [first[name] for name in sorted(first)]
