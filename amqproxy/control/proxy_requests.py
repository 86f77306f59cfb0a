"""Requests to a proxy's control socket, each on its own connection, so that none waits for another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from amqproxy.control import AsyncControlClient, RequestError

MAX_REQUESTS = 8
"""Maximum number of concurrent requests to one proxy."""

PATIENCE = 10.0
"""Seconds within which a proxy has to respond."""


class ProxyRequests:
    """Client of one proxy; `RequestError` for refused requests, "unreachable" if the proxy is absent or silent."""

    def __init__(self, path: Path, patience: float = PATIENCE) -> None:
        self._path = path
        self._patience = patience
        self._turn = asyncio.Semaphore(MAX_REQUESTS)

    async def ask(self, request: str, **keys: Any) -> dict[str, Any]:
        """Return the response to a request; keys whose value is `None` are omitted."""
        try:
            async with (
                asyncio.timeout(self._patience),
                self._turn,
                await AsyncControlClient.connect(self._path) as client,
            ):
                return await client.ask(request, **keys)
        except TimeoutError:
            raise RequestError("unreachable", f"{self._path}: amqproxy does not answer") from None

    async def pieces(self, request: str, **keys: Any) -> AsyncIterator[list[Any]]:
        """Yield the pieces of a list; each has to come within the client's timeout."""
        async with self._turn, await AsyncControlClient.connect(self._path) as client:
            async for piece in client.pieces(request, **keys):
                yield piece
