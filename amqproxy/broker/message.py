"""A message on its way: what was published, once, however many queues hold it."""

from __future__ import annotations

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

# Property flags, as C sees them: those of the delivery mode, and of what may be before it.
_CONTENT_TYPE = cython.declare(cython.int, 0x8000)
_CONTENT_ENCODING = cython.declare(cython.int, 0x4000)
_HEADERS = cython.declare(cython.int, 0x2000)
_DELIVERY_MODE = cython.declare(cython.int, 0x1000)


@cython.cfunc
@cython.exceptval(check=False)
def _delivery_mode(header: bytes) -> cython.int:
    """That in the payload of a content header, 0 where there is none; -1 where one should be, and is not there."""
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
        """Needs no decoding either, unless the header is malformed."""
        if self._properties is None:
            mode = _delivery_mode(self.header)
            if mode >= 0:
                return mode == PERSISTENT
        return self.properties.delivery_mode == PERSISTENT

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
