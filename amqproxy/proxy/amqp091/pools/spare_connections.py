"""Connections on which a login was checked, until a client uses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from amqproxy.proxy.amqp091.pools.pool_login import LoggedIn
from amqproxy.proxy.upstreams.member import Member

SPARE_FOR = 5.0
"""Seconds for which a connection waits for a client."""


class SpareConnection(NamedTuple):
    """A connection to `member`, until `expires_at`."""

    member: Member
    logged_in: LoggedIn
    expires_at: float


class SpareConnections:
    """Spare connections by the digest of their credential; `clock` counts seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._spares: dict[bytes, list[SpareConnection]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._spares.values()))

    def keep(self, digest: bytes, member: Member, logged_in: LoggedIn) -> None:
        """Keep a connection that has checked this credential."""
        self._spares.setdefault(digest, []).append(SpareConnection(member, logged_in, self._clock() + SPARE_FOR))

    def take(self, digest: bytes) -> SpareConnection | None:
        """Take a connection that has checked this credential."""
        spares = self._spares.get(digest)
        if not spares:
            return None
        spare = spares.pop()
        if not spares:
            del self._spares[digest]
        return spare

    def expired(self) -> list[SpareConnection]:
        """Take the connections whose time is over."""
        now = self._clock()
        gone = [each for spares in self._spares.values() for each in spares if now >= each.expires_at]
        self._spares = {
            digest: kept
            for digest, spares in self._spares.items()
            if (kept := [each for each in spares if now < each.expires_at])
        }
        return gone
