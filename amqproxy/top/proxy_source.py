"""Queries a proxy through its control socket, while `top` runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from amqproxy.control import AsyncControlClient, RequestError


class Source(Protocol):
    """Source of data."""

    async def ask(self, request: str) -> dict[str, Any]:
        """Return the response to a request; raise `RequestError` if there is none."""

    async def aclose(self) -> None:
        """Close the source."""


class ProxySource:
    """A `Source` that connects to `path` with the first request, and again after a lost connection."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._client: AsyncControlClient | None = None

    async def ask(self, request: str) -> dict[str, Any]:
        if self._client is None:
            self._client = await AsyncControlClient.connect(self._path)
        try:
            return await self._client.ask(request)
        except RequestError as error:
            if error.name == "unreachable":
                await self.aclose()
            raise

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()
