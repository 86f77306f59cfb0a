"""Limits on browser connections: their number, and how long they may be idle or stalled."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable

import msgspec

from amqproxy.web.client_network import UNKNOWN, network_of

MAX_CONNECTIONS = 800
"""Maximum number of concurrent connections; each takes a file descriptor."""

MAX_OF_ONE = 200
"""Maximum number of concurrent connections of one address."""

REQUEST_SECONDS = 15.0
"""Seconds within which a connection has to send a complete request head."""

STALLED_SECONDS = 30.0
"""Seconds within which a browser has to read `STALLED_PART` bytes."""

STALLED_PART = 64 * 1024
"""Bytes that a browser has to read to count as not stalled."""

LOOK_SECONDS = 5.0
"""Seconds between two checks of all connections."""


class _Connection(msgspec.Struct):
    """One connection: its client network, since when it is idle, its unread bytes and since when they are unread."""

    network: str
    idle_since: float | None
    unread: int = 0
    unread_since: float = 0.0


class Peers:
    """The connections of one server, by transport."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._connections: dict[asyncio.Transport, _Connection] = {}
        self._networks: Counter[str] = Counter()

    def admit(self, transport: asyncio.Transport) -> bool:
        """Admit a connection, and return whether it is within the limits; if not, the caller closes it."""
        name = transport.get_extra_info("peername")
        network = network_of(name[0]) if isinstance(name, tuple) else UNKNOWN
        if len(self._connections) >= MAX_CONNECTIONS or self._networks[network] >= MAX_OF_ONE:
            return False
        self._networks[network] += 1
        self._connections[transport] = _Connection(network, self._clock())
        return True

    def release(self, transport: asyncio.Transport) -> None:
        """Forget a connection that was closed."""
        connection = self._connections.pop(transport, None)
        if connection is not None:
            self._networks[connection.network] -= 1
            if not self._networks[connection.network]:
                del self._networks[connection.network]

    def note_request(self, transport: asyncio.Transport, *, is_served: bool) -> None:
        """Note whether the connection has a request that is being served."""
        connection = self._connections.get(transport)
        if connection is None:
            return
        if is_served:
            connection.idle_since = None
        elif connection.idle_since is None:
            connection.idle_since = self._clock()

    async def watch(self) -> None:
        """Check all connections at every `LOOK_SECONDS`."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Abort connections that send no request or do not read their responses in time."""
        now = self._clock()
        for transport, connection in list(self._connections.items()):
            unread = transport.get_write_buffer_size()
            if not unread or unread <= connection.unread - STALLED_PART or not connection.unread:
                connection.unread, connection.unread_since = unread, now
            is_stalled = unread and now - connection.unread_since > STALLED_SECONDS
            is_idle = connection.idle_since is not None and now - connection.idle_since > REQUEST_SECONDS
            if is_stalled or (is_idle and not unread):
                transport.abort()
