"""The header segments of the transfers that a session is sent: each message's properties, address and length."""

from __future__ import annotations

import struct

from amqproxy.amqp010.properties import DeliveryProperties, MessageProperties
from amqproxy.amqp091.properties import PROPERTIES
from amqproxy.broker.amqp010.message_conversion import expiration, structs_of
from amqproxy.broker.message import Message

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy import _cython as cython

MOST = 256
"""Headers that are known, above which all are forgotten and made again."""

LARGEST = 512
"""Bytes of a header that is worth knowing: a session is to take little memory, whatever it is sent."""

_PROPERTIES_AT = 12
"""Where the properties of a content header begin, behind the size of the body."""

_LENGTH_AT = 8
"""Where the content-length lies in the struct of message properties, which begins with it: 8 bytes."""

_SIZE = struct.Struct(">Q")


class TransferHeaders:
    """Of one session. A message that is as one before it, but for its body, has a header that is known."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, str, str, bool], tuple[bytes, bytes]] = {}
        self._content_header = b""
        self._exchange = self._routing_key = ""
        self._is_redelivered = False
        self._last = b""

    def of(self, message: Message, content_header: bytes, expires_at: float, is_redelivered: cython.bint) -> bytes:
        """The header of a message with a content header that may be another than its own.

        Where it is as the last one, it is the same object.
        """
        if (
            content_header == self._content_header
            and message.exchange == self._exchange
            and message.routing_key == self._routing_key
            and is_redelivered == self._is_redelivered
            and self._last
        ):
            return self._last
        key = (content_header[_PROPERTIES_AT:], message.exchange, message.routing_key, is_redelivered)
        size = _SIZE.pack(len(message.body))
        halves = self._known.get(key)
        if halves is None:
            delivery, described, is_timed = self._made(message, content_header, expires_at, is_redelivered)
            whole = delivery + described
            if is_timed or len(whole) > LARGEST:
                return whole
            before = len(delivery) + _LENGTH_AT
            halves = whole[:before], whole[before + _SIZE.size :]
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[key] = halves
        self._last = halves[0] + size + halves[1]
        self._content_header = content_header
        self._exchange, self._routing_key = message.exchange, message.routing_key
        self._is_redelivered = is_redelivered
        return self._last

    def _made(
        self, message: Message, content_header: bytes, expires_at: float, is_redelivered: bool
    ) -> tuple[bytes, bytes, bool]:
        """The delivery properties, and the other structs; and is the time in them that of this message alone?"""
        if content_header is message.header:
            properties = message.properties
        else:
            properties = PROPERTIES.of_flagged(content_header, _PROPERTIES_AT, len(content_header))
        delivery, described, others = structs_of(properties)
        given = {name: getattr(delivery, name) for name in DeliveryProperties.fields}
        given |= {"exchange": message.exchange, "routing_key": message.routing_key}
        given["redelivered"] = is_redelivered or delivery.redelivered
        is_timed = delivery.ttl is not None
        if is_timed:
            given["expiration"] = expiration(expires_at)
        known = {name: getattr(described, name) for name in MessageProperties.fields}
        known["content_length"] = len(message.body)
        rest = b"".join([each.encode() for each in (MessageProperties(**known), *others)])
        return DeliveryProperties(**given).encode(), rest, is_timed
