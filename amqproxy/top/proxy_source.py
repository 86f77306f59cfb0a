"""Asks a proxy through its control socket, for as long as `top` runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from amqproxy.control import AsyncControlClient, RequestError


class Source(Protocol):
    """What is asked."""

    async def ask(self, request: str) -> dict[str, Any]:
        """The response to a request. `RequestError` when there is none."""

    async def aclose(self) -> None:
        """No more is asked."""


class ProxySource:
    """A `Source` that connects to `path` with the first request, and again after the connection was lost."""

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
