"""A method with its header and its body, put together from frames as they come."""

from __future__ import annotations

from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.properties import NO_PROPERTIES, Properties


class PartialContent:
    """A method that carries content, of which not all has come. Section 4.2.6.

    Of the body, the first `most` bytes are kept.
    """

    __slots__ = ("_body", "_most", "_remaining", "method", "properties", "size")

    def __init__(self, method: Method, most: int) -> None:
        self.method = method
        self.properties: Properties = NO_PROPERTIES
        self.size = 0
        self._most = most
        self._remaining = -1
        self._body: bytes | bytearray = b""

    @property
    def has_header(self) -> bool:
        return self._remaining >= 0

    @property
    def is_complete(self) -> bool:
        return self._remaining == 0

    @property
    def body(self) -> bytes:
        """The beginning of the body."""
        return bytes(self._body)

    def add_header(self, size: int, properties: Properties) -> bool:
        """Take the header; is the content complete with it?"""
        self.size = self._remaining = size
        self.properties = properties
        return not size

    def add_body(self, size: int, payload: bytes | None) -> bool:
        """Take `size` more bytes; `payload` may be None where none of them is kept. Is the content complete now?"""
        remaining = self._remaining = self._remaining - size if size < self._remaining else 0
        if payload and self.wants_body:
            if not self._body:
                self._body = payload[: self._most]
            else:
                self._body = bytearray(self._body) if isinstance(self._body, bytes) else self._body
                self._body += payload[: self._most - len(self._body)]
        return not remaining

    @property
    def wants_body(self) -> bool:
        return len(self._body) < self._most
