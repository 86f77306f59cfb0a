"""A client that is served, for those who list them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from amqproxy.broker.amqp010.connection import Amqp010Connection
from amqproxy.broker.amqp091.connection import Amqp091Connection
from amqproxy.broker.server.connection_tap import ConnectionTap
from amqproxy.broker.server.served_client import ServedClient


class ServedConnection(NamedTuple):
    """A connection, numbered from 1 on in each run; `since` is the time of day in seconds.

    `certificate_name` is what a TLS client's certificate calls it, "" where it has shown none, None without TLS; `tap`
    what shows and counts what passes, where something is to be shown or counted. `connection` is that of a client of
    AMQP 0-9-1, which every client is until its protocol header is known; `current` returns what serves it now.
    """

    number: int
    connection: Amqp091Connection
    since: float
    certificate_name: str | None
    tap: ConnectionTap | None
    current: Callable[[], ServedClient] | None = None

    @property
    def amqp010(self) -> Amqp010Connection | None:
        """The connection of a client that speaks AMQP 0-10."""
        found = None if self.current is None else self.current()
        return found if isinstance(found, Amqp010Connection) else None

    @property
    def name(self) -> str:
        """Both ends' addresses, the client's first, as taps know them."""
        return self.connection.name.replace(" -> ", "-")
