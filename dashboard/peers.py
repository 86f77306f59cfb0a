"""The connections of browsers: how many there may be, and that none is kept for nothing."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable

import msgspec

from dashboard.client_network import UNKNOWN, network_of

MAX_CONNECTIONS = 800
"""Connections at once; each takes a file descriptor."""

MAX_OF_ONE = 200
"""Connections of one address."""

REQUEST_SECONDS = 15.0
"""How long the head of a request may take to come, or the next request."""

STALLED_SECONDS = 30.0
"""How long a browser may take for the next part of what it is sent."""

STALLED_PART = 64 * 1024
"""Bytes of that part."""

LOOK_SECONDS = 5.0
"""How often all connections are looked at."""


class _Connection(msgspec.Struct):
    """One connection: where it comes from, since when it has no request, and what it has not read since when."""

    network: str
    idle_since: float | None
    unread: int = 0
    unread_since: float = 0.0


class Peers:
    """The connections of one server, by their transports."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._connections: dict[asyncio.Transport, _Connection] = {}
        self._networks: Counter[str] = Counter()

    def admit(self, transport: asyncio.Transport) -> bool:
        """Is there room for one more? Where there is not, it is to be closed."""
        name = transport.get_extra_info("peername")
        network = network_of(name[0]) if isinstance(name, tuple) else UNKNOWN
        if len(self._connections) >= MAX_CONNECTIONS or self._networks[network] >= MAX_OF_ONE:
            return False
        self._networks[network] += 1
        self._connections[transport] = _Connection(network, self._clock())
        return True

    def release(self, transport: asyncio.Transport) -> None:
        """It is over."""
        connection = self._connections.pop(transport, None)
        if connection is not None:
            self._networks[connection.network] -= 1
            if not self._networks[connection.network]:
                del self._networks[connection.network]

    def note_request(self, transport: asyncio.Transport, *, is_served: bool) -> None:
        """It has a request that is served, or has none."""
        connection = self._connections.get(transport)
        if connection is None:
            return
        if is_served:
            connection.idle_since = None
        elif connection.idle_since is None:
            connection.idle_since = self._clock()

    async def watch(self) -> None:
        """Look at all of them, again and again."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """End those that send no request, and those that do not read what they are sent."""
        now = self._clock()
        for transport, connection in list(self._connections.items()):
            unread = transport.get_write_buffer_size()
            if not unread or unread <= connection.unread - STALLED_PART or not connection.unread:
                connection.unread, connection.unread_since = unread, now
            is_stalled = unread and now - connection.unread_since > STALLED_SECONDS
            is_idle = connection.idle_since is not None and now - connection.idle_since > REQUEST_SECONDS
            if is_stalled or (is_idle and not unread):
                transport.abort()
