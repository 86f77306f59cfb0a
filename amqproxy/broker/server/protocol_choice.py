"""The choice of the connection that serves a client, by the protocol header that the client sends."""

from __future__ import annotations

from collections.abc import Callable

from amqproxy.amqp091.protocol_header import recognise
from amqproxy.broker.connections.client_connection import ClientConnection
from amqproxy.broker.server.dialects import FIRST, Dialect, spoken


class ProtocolChoice:
    """`found` is the connection that serves the client: that of the first dialect, unless its header names another.

    `connect` makes the connection of a dialect.
    """

    __slots__ = ("_connect", "_received", "found", "is_made")

    def __init__(self, connect: Callable[[Dialect], ClientConnection]) -> None:
        self.found = connect(FIRST)
        self.is_made = False
        self._connect = connect
        self._received = b""

    def feed(self, data: bytes, now: float) -> None:
        """Pass on what the client sent first, which may be any part of a header, and more."""
        self._received += data
        protocol = recognise(self._received)
        self.is_made = protocol is not None
        dialect = FIRST if protocol is None else spoken(protocol) or FIRST
        if dialect is not FIRST:
            self.found.step_aside()
            self.found = self._connect(dialect)
            data = self._received
        self.found.feed(data, now)
