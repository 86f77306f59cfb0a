"""Individually listed connections of captures: peers, totals, and how each ended."""

from __future__ import annotations

import msgspec

from amqproxy.conversion.client_name import given_name
from amqproxy.taps.message_recorder import NORMAL_CODES
from amqproxy.taps.trace.events import ConnectionClosed, ConnectionOpened, closer

MAX_CONNECTIONS = 1000
"""Listed connections; beyond that, failed connections displace others."""

MAX_TEXT = 300
"""Characters that are kept of each text sent by a peer."""


class ConnectionFigures(msgspec.Struct):
    """Figures of one connection; `frames`, `bytes`, `published` and `delivered` count the selection only.

    `has_failed` is whether it ended by an error, or without connection.close.
    """

    stream: int
    connection: str
    began_ns: int
    ended_ns: int
    user: str | None = None
    vhost: str | None = None
    client: str = ""
    frames: int = 0
    bytes: int = 0
    published: int = 0
    delivered: int = 0
    findings: int = 0
    ending: str = ""
    has_failed: bool = False

    def open(self, event: ConnectionOpened) -> None:
        """Record the user, virtual host and client of the connection."""
        self.user, self.vhost = event.user, event.virtual_host
        properties = event.client_properties or {}
        version = properties.get("version") or properties.get("qpid.client_version")
        parts = [properties.get("product"), version, given_name(properties)]
        self.client = " ".join(str(each)[:MAX_TEXT] for each in parts if each)

    def close(self, event: ConnectionClosed) -> None:
        """Record how the connection ended."""
        if event.by is None:
            self.ending, self.has_failed = event.text[:MAX_TEXT], event.is_open is not False
        else:
            by = f"closed by the {closer(event)}"
            self.ending = by if event.code in NORMAL_CODES else f"{by}: {event.code} {event.text}"
            self.has_failed = event.code not in NORMAL_CODES


class ConnectionList:
    """At most `most` connections that have ended, and the number of `more` that are not listed."""

    def __init__(self, most: int = MAX_CONNECTIONS) -> None:
        self.more = 0
        self._most = most
        self._failed: list[ConnectionFigures] = []
        self._others: list[ConnectionFigures] = []

    def add(self, figures: ConnectionFigures) -> None:
        """List a connection; a failed one may displace another."""
        if len(self) >= self._most:
            self.more += 1
            if not figures.has_failed or not self._others:
                return
            self._others.pop()
        (self._failed if figures.has_failed else self._others).append(figures)

    def __len__(self) -> int:
        return len(self._failed) + len(self._others)

    def in_order(self) -> list[ConnectionFigures]:
        """Return the listed connections, by their beginning."""
        return sorted(self._failed + self._others, key=lambda each: (each.began_ns, each.stream))
