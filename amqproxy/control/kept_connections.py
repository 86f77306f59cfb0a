"""Connections to a control socket that are used for one request after another: each new one costs the proxy a task."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from amqproxy.control.async_control_client import AsyncControlClient

MOST_IDLE_SECONDS = 60.0
"""Seconds without a request after which a connection is not used again; the proxy closes it after 600."""


class KeptConnections:
    """Connections to the control socket at `path`, of which `most` are kept without a request."""

    def __init__(self, path: Path, most: int = 0) -> None:
        self._path = path
        self._most = most
        self._idle: deque[tuple[float, AsyncControlClient]] = deque()
        """Connections without a request, each with the time since when, the latest last."""

    @asynccontextmanager
    async def one(self) -> AsyncIterator[AsyncControlClient]:
        """Yield a connection for one request; it is closed if the block fails, or does not read the whole response.

        `RequestError` with the name "unreachable" if no proxy listens.
        """
        client = await self._latest() or await AsyncControlClient.connect(self._path)
        is_kept = False
        try:
            yield client
            is_kept = len(self._idle) < self._most
        finally:
            if is_kept:
                self._idle.append((time.monotonic(), client))
            else:
                await client.aclose()

    async def _latest(self) -> AsyncControlClient | None:
        """Return the connection that was used last, if it is open still; close those that were not used for long."""
        while self._idle and self._idle[0][0] < time.monotonic() - MOST_IDLE_SECONDS:
            await self._idle.popleft()[1].aclose()
        while self._idle:
            client = self._idle.pop()[1]
            if client.is_open:
                return client
            await client.aclose()
        return None

    async def aclose(self) -> None:
        """Close the connections without a request."""
        while self._idle:
            await self._idle.pop()[1].aclose()
