"""A client that is served, for those who list them."""

from __future__ import annotations

from typing import NamedTuple

from amqproxy.broker.connection.client_connection import ClientConnection
from amqproxy.broker.server.connection_tap import ConnectionTap


class ServedConnection(NamedTuple):
    """A connection, numbered from 1 on in each run; `since` is the time of day in seconds.

    `certificate_name` is what a TLS client's certificate calls it, "" where it has shown none, None without TLS; `tap`
    what shows and counts what passes, where something is to be shown or counted.
    """

    number: int
    connection: ClientConnection
    since: float
    certificate_name: str | None
    tap: ConnectionTap | None

    @property
    def name(self) -> str:
        """Both ends' addresses, the client's first, as taps know them."""
        return self.connection.name.replace(" -> ", "-")
