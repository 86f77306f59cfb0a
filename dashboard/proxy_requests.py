"""Requests to a proxy's control socket: each on a connection of its own, so that none waits for another."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from amqproxy.control import AsyncControlClient, RequestError

MAX_REQUESTS = 8
"""Requests to one proxy at a time."""

PATIENCE = 10.0
"""Seconds that a proxy has for a response."""


class ProxyRequests:
    """Asks one proxy. `RequestError` for what it refuses; "unreachable" when it is not there, or does not answer."""

    def __init__(self, path: Path, patience: float = PATIENCE) -> None:
        self._path = path
        self._patience = patience
        self._turn = asyncio.Semaphore(MAX_REQUESTS)

    async def ask(self, request: str, **keys: Any) -> dict[str, Any]:
        """The response to a request; keys whose value is None are left out."""
        try:
            async with (
                asyncio.timeout(self._patience),
                self._turn,
                await AsyncControlClient.connect(self._path) as client,
            ):
                return await client.ask(request, **keys)
        except TimeoutError:
            raise RequestError("unreachable", f"{self._path}: amqproxy does not answer") from None
