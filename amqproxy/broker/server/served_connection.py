"""A client that is served, for those who list them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from amqproxy.broker.connections.client_connection import ClientConnection
from amqproxy.broker.server.connection_tap import ConnectionTap


class ServedConnection(NamedTuple):
    """A connection, numbered from 1 on in each run; `since` is the time of day in seconds.

    `connection` is the one of the first dialect, which serves every client until its protocol header is known, and
    `current` returns the one that serves it now. `certificate_name` is the subject of a TLS client's certificate, ""
    where it has shown none, None without TLS; `tap` shows and counts what passes, where something is shown or counted.
    """

    number: int
    connection: Any
    since: float
    certificate_name: str | None
    tap: ConnectionTap | None
    current: Callable[[], ClientConnection] | None = None

    @property
    def other(self) -> Any:
        """The connection that took over, of the other dialect that the client speaks; None if there is none."""
        current = self.connection if self.current is None else self.current()
        return None if current is self.connection else current

    @property
    def listed_name(self) -> str:
        """The name in lists; a client within the process has one like RabbitMQ's direct connections."""
        name: str = self.connection.name
        return name or f"<{self.connection.broker.node}.{self.number}>"

    @property
    def name(self) -> str:
        """Both ends' addresses, the client's first, as taps know them."""
        name: str = self.connection.name
        return name.replace(" -> ", "-")
