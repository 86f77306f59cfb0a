"""Header segments of the transfers that a session is sent: each message's properties, address and length."""

from __future__ import annotations

from amqproxy.amqp010.properties import DeliveryProperties, MessageProperties
from amqproxy.amqp091.properties import PROPERTIES
from amqproxy.broker.amqp010.header_places import content_header_places, header_places
from amqproxy.broker.amqp010.header_shape import HeaderShape, learnt
from amqproxy.broker.amqp010.message_conversion import expiration, structs_of
from amqproxy.broker.message import Message

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

MOST = 256
"""Number of cached headers above which the cache is cleared."""

LARGEST = 512
"""Maximum size in bytes of a header worth caching: a session takes little memory whatever it is sent."""

_PROPERTIES_AT = 12
"""Offset of the properties in a content header, after the body size."""


class TransferHeaders:
    """Header segments for one session.

    A message that differs from an earlier one in its variable fields only has a header of a cached shape.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, str, str, bool], HeaderShape | None] = {}
        """Cached shapes by blanked content header, exchange, routing key and redelivered flag; None after the first."""
        self._shape: HeaderShape | None = None
        self._exchange = self._routing_key = ""
        self._is_redelivered = False

    def of(self, message: Message, content_header: bytes, expires_at: float, is_redelivered: cython.bint) -> bytes:
        """Return the header segment of a message, for a content header that may differ from its own.

        It is the same object as the last one if that is equal and of a cached shape.
        """
        shape = self._shape
        if not (
            shape is not None
            and message.exchange == self._exchange
            and message.routing_key == self._routing_key
            and is_redelivered == self._is_redelivered
            and shape.matches(content_header, 0, len(content_header))
        ):
            shape = self._find(message, content_header, is_redelivered)
            if shape is None:
                return self._translate(message, content_header, expires_at, is_redelivered)
            self._shape = shape
            self._exchange, self._routing_key = message.exchange, message.routing_key
            self._is_redelivered = is_redelivered
        return shape.translated(content_header, 0, len(message.body))

    def _key(self, message: Message, content_header: bytes, is_redelivered: bool) -> tuple[bytes, str, str, bool]:
        blank = content_header_places(content_header).blank(content_header)
        return blank, message.exchange, message.routing_key, is_redelivered

    def _find(self, message: Message, content_header: bytes, is_redelivered: bool) -> HeaderShape | None:
        """Return the cached shape that the content header matches, if any."""
        if len(content_header) > LARGEST:
            return None
        found = self._known.get(self._key(message, content_header, is_redelivered))
        return found if found is not None and found.matches(content_header, 0, len(content_header)) else None

    def _translate(self, message: Message, content_header: bytes, expires_at: float, is_redelivered: bool) -> bytes:
        """Return the header segment for a content header without a cached shape.

        Its shape is cached from the second header of its kind on.
        """

        def made(content_header: bytes) -> bytes:
            return self._made(message, content_header, expires_at, is_redelivered)[0]

        whole, is_timed = self._made(message, content_header, expires_at, is_redelivered)
        if is_timed or len(whole) > LARGEST or len(content_header) > LARGEST:
            return whole
        key = self._key(message, content_header, is_redelivered)
        places = content_header_places(content_header)
        if len(self._known) >= MOST:
            self._known.clear()
        if key not in self._known:
            self._known[key] = None
            return whole
        shape = self._known[key] = learnt(content_header, places, whole, header_places(whole), made)
        return whole if shape is None else shape.translated(content_header, 0, len(message.body))

    def _made(
        self, message: Message, content_header: bytes, expires_at: float, is_redelivered: bool
    ) -> tuple[bytes, bool]:
        """Return the header segment, and whether it has an expiration that is this message's alone."""
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
        return DeliveryProperties(**given).encode() + rest, is_timed
