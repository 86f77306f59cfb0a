"""Requests to a proxy's control socket, each with a connection to itself, so that none waits for another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from amqproxy.control import RequestError
from amqproxy.control.kept_connections import KeptConnections

MAX_REQUESTS = 8
"""Maximum number of concurrent requests to one proxy."""

MAX_LISTS = 12
"""Maximum number of lists in pieces that are read at the same time, besides other requests."""

PATIENCE = 10.0
"""Seconds within which a proxy has to respond."""


class ProxyRequests:
    """Client of one proxy; `RequestError` for refused requests, "unreachable" if the proxy is absent or silent.

    At most `kept` connections stay open between requests, until `aclose`.
    """

    def __init__(self, path: Path, patience: float = PATIENCE, kept: int = 0) -> None:
        self._path = path
        self._connections = KeptConnections(path, kept)
        self._patience = patience
        self._turn = asyncio.Semaphore(MAX_REQUESTS)
        self._lists = asyncio.Semaphore(MAX_LISTS)

    async def ask(self, request: str, **keys: Any) -> dict[str, Any]:
        """Return the response to a request; keys whose value is `None` are omitted."""
        try:
            async with asyncio.timeout(self._patience), self._turn, self._connections.one() as client:
                return await client.ask(request, **keys)
        except TimeoutError:
            raise self._silent() from None

    async def pieces(self, request: str, **keys: Any) -> AsyncGenerator[list[Any]]:
        """Yield the pieces of a list; each has to come within the client's timeout.

        The list occupies one of the `MAX_LISTS` turns until its end or `aclose`: its reader reads no other list.
        """
        try:
            async with asyncio.timeout(self._patience):
                await self._lists.acquire()
        except TimeoutError:
            raise self._silent() from None
        try:
            async with aclosing(self.pieces_at_once(request, **keys)) as pieces:
                async for piece in pieces:
                    yield piece
        finally:
            self._lists.release()

    async def pieces_at_once(self, request: str, **keys: Any) -> AsyncGenerator[list[Any]]:
        """Yield the pieces of a list without a turn, for a task that other readers must not keep waiting."""
        async with self._connections.one() as client, aclosing(client.pieces(request, **keys)) as pieces:
            async for piece in pieces:
                yield piece

    async def aclose(self) -> None:
        """Close the connections that are kept."""
        await self._connections.aclose()

    def _silent(self) -> RequestError:
        return RequestError("unreachable", f"{self._path}: amqproxy does not answer")
