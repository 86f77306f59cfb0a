"""A message on its way: what was published, once, however many queues hold it."""

from __future__ import annotations

from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.wire import decode_flagged

PERSISTENT = 2


class Message:
    """One publish. `header` is its content header's payload as received, `body` all of its octets.

    The properties are decoded when somebody asks; a message that only passes through never is.
    """

    __slots__ = ("_properties", "body", "exchange", "header", "routing_key")

    def __init__(self, exchange: str, routing_key: str, header: bytes, body: bytes) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.header = header
        self.body = body
        self._properties: Properties | None = None

    @classmethod
    def made(cls, exchange: str, routing_key: str, properties: Properties, body: bytes) -> Message:
        """A message with other properties than it came with."""
        return cls(exchange, routing_key, ContentHeader(len(body), properties).encode(), body)

    @property
    def properties(self) -> Properties:
        """`ProtocolError` when they are malformed."""
        if self._properties is None:
            self._properties = Properties(*decode_flagged(Properties.layout, self.header, 12, len(self.header)))
        return self._properties

    @property
    def has_properties(self) -> bool:
        """Is there any property at all? Told without decoding them."""
        return self.header[12:14] != b"\x00\x00"

    @property
    def size(self) -> int:
        return len(self.body)
