"""A message that was got from a queue and is not settled."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table

COUNTS = ("x-delivery-count", "x-acquired-count")
"""Headers by which a quorum queue shows how often a message came back: they belong to the queue, not to the message."""


class HeldMessage:
    """A complete basic.get-ok or basic.deliver; `position` counts from 0, the head of the queue."""

    def __init__(self, command: Command, position: int) -> None:
        self.command = command
        self.position = position

    @property
    def delivery_tag(self) -> int:
        return int(self.command.method.delivery_tag)

    @property
    def exchange(self) -> str:
        return str(self.command.method.exchange)

    @property
    def routing_key(self) -> str:
        return str(self.command.method.routing_key)

    @property
    def is_redelivered(self) -> bool:
        return bool(self.command.method.redelivered)

    @property
    def body(self) -> bytes:
        return self.command.body

    @property
    def size(self) -> int:
        """Bytes of header and body."""
        return sum(frame.size for frame in self.command.frames[1:])

    @property
    def delivery_count(self) -> int:
        """Returns that the quorum queue has counted; 0 in other queues."""
        headers = self.command.properties.headers
        if headers is None or b"x-delivery-count" not in headers.octets:
            return 0
        count = headers.get("x-delivery-count")
        return count if isinstance(count, int) else 0

    @cached_property
    def properties(self) -> Properties:
        """The properties without the counts of the queue; the received ones if there are none."""
        found = self.command.properties
        return found if found.headers is None else with_headers(found, without(found.headers, *COUNTS))

    @property
    def digest(self) -> bytes:
        """Digest of the message as it would be published again: equal for equal messages."""
        return digest_of(self.exchange, self.routing_key, self.properties, self.body)


def digest_of(exchange: str, routing_key: str, properties: Properties, body: bytes) -> bytes:
    """Return the digest of a message: equal for equal messages."""
    headers = properties.headers or Table()
    parts = (
        exchange.encode("utf-8", "surrogateescape"),
        routing_key.encode("utf-8", "surrogateescape"),
        repr(msgspec.structs.replace(properties, headers=None)).encode(),
        # RabbitMQ 4.3 sorts the headers when it adds a count: which bytes there are does not depend on their order.
        bytes(sorted(headers.octets)),
        body,
    )
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(len(part).to_bytes(8) + part)
    return found.digest()


def without(headers: Table, *names: str) -> Table:
    """Return headers without those of these names; the same ones if there are none."""
    octets = headers.octets
    if not any(name.encode() in octets for name in names):  # the usual case, in which nothing is decoded
        return headers
    return Table(field for field in headers.fields if field.name not in names)


def with_headers(properties: Properties, headers: Table) -> Properties:
    """Return the properties with these headers, or without any if they are empty."""
    if headers is properties.headers:
        return properties
    return msgspec.structs.replace(properties, headers=headers if headers.octets else None)


def plain_headers(properties: Properties) -> dict[str, Any]:
    """Return the headers by name; empty if there are none."""
    return {} if properties.headers is None else dict(properties.headers)
