"""Selection of rows by connection, by channel, or by a filter: the part common to frames and messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from amqproxy.dashboard.viewer_filter import viewer_filter
from amqproxy.rules.context import Client
from amqproxy.rules.matching.filters import Filter


class OnConnection(Protocol):
    """Decoded traffic, or an event, of one connection."""

    @property
    def stream(self) -> int: ...

    @property
    def connection(self) -> str: ...


ClientOf = Callable[[int, str, int], Client]
"""Function from a connection's number, its name and a row to the client as known before that row."""


def named_client(stream: int, connection: str, seq: int) -> Client:
    """Return a client that is known only by its connection."""
    return Client.named(stream, connection)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A connection, by its number or a part of its name, and a channel; `None` stands for any."""

    connection: str | None = None
    channel: int | None = None

    @property
    def is_everywhere(self) -> bool:
        return self.connection is None and self.channel is None

    def has_connection(self, shown: OnConnection) -> bool:
        """Whether this belongs to the connection."""
        wanted = self.connection
        if wanted is None:
            return True
        number = wanted.removeprefix("#")
        return str(shown.stream) == number or (not number.isdecimal() and wanted in shown.connection)


class Selection:
    """A filter and a place; `ValueError` if the filter is invalid.

    Faults are rows without a command, such as abnormal closes and undecodable bytes: a filter selects them only with
    `faults`. A gap in the traffic of all connections is always selected. Rows on which the evaluation of the filter
    fails are selected; `take_warning` says so.
    """

    def __init__(
        self,
        filter: str | None = None,
        place: Place | None = None,
        client_of: ClientOf = named_client,
        *,
        faults: bool = False,
    ) -> None:
        self._warnings: list[str] = []
        self._filter: Filter | None = viewer_filter(filter, self._warnings.append) if filter else None
        self._place = place or Place()
        self._client_of = client_of
        self._faults = faults

    def take_warning(self) -> str | None:
        """Return, once, why the filter fails on some rows; `None` while it has not failed."""
        return self._warnings.pop() if self._warnings else None
