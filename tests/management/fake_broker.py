"""A control socket that answers each request with a fixed response."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from amqproxy.control.proxy_requests import PATIENCE
from amqproxy.management.broker_source import BrokerSource


class FakeBroker:
    """What the control socket at `path` was asked; `answers` are its responses by request, or by kind of object.

    Without an answer, a request waits.
    """

    def __init__(self, path: Path, answers: Mapping[str, Mapping[str, Any]]) -> None:
        self.path = path
        self.answers = answers
        self.asked: list[str] = []
        self.accepted = 0
        """Number of connections."""
        self.writers: list[asyncio.StreamWriter] = []

    @asynccontextmanager
    async def serving(self, patience: float = PATIENCE) -> AsyncIterator[BrokerSource]:
        """Answer while the block runs; yield what asks, whose connections are closed at the end."""
        server = await asyncio.start_unix_server(self._serve, str(self.path))
        try:
            async with aclosing(BrokerSource(self.path, patience)) as source:
                yield source
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self.writers.append(writer)
        while line := await reader.readline():
            request = json.loads(line)
            name = request.get("kind", request["request"])
            self.asked.append(name)
            if name in self.answers:
                writer.write(json.dumps({"ok": True, **self.answers[name]}).encode() + b"\n")
        writer.close()


def objects(*entries: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the response with the objects of a list."""
    return {"objects": entries, "more": False}
