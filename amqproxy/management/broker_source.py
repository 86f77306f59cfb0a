"""The broker behind the API: its control socket, its facts, and the rows of its lists."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import cached_property
from pathlib import Path
from typing import Any

from amqproxy.control.proxy_requests import PATIENCE, ProxyRequests

Entry = dict[str, Any]

FRESH_SECONDS = 0.5
"""Seconds for which the broker's facts are kept: every request needs some of them."""


class BrokerSource(ProxyRequests):
    """Requests to the broker's control socket."""

    def __init__(self, path: Path, patience: float = PATIENCE) -> None:
        super().__init__(path, patience)
        self._facts: BrokerFacts | None = None
        self._asked_at = 0.0
        self._looking_up: asyncio.Task[BrokerFacts] | None = None

    async def facts(self) -> BrokerFacts:
        """Return the broker's version, listeners, resources and alarms, at most `FRESH_SECONDS` old."""
        if self._facts is not None and time.monotonic() - self._asked_at <= FRESH_SECONDS:
            return self._facts
        if self._looking_up is None or self._looking_up.done():
            self._looking_up = asyncio.create_task(self._look_up())
        return await asyncio.shield(self._looking_up)  # others wait for it too

    async def _look_up(self) -> BrokerFacts:
        asked_at = time.monotonic()
        self._facts = BrokerFacts(await self.ask("broker"))
        self._asked_at = asked_at
        return self._facts

    async def objects(
        self, kind: str, vhost: str | None = None, name: str | None = None, page: Entry | None = None
    ) -> AsyncGenerator[Entry]:
        """Yield the broker's objects of one kind, a piece in memory at a time; of queues, perhaps a page."""
        async with aclosing(self.pieces("broker-objects", kind=kind, vhost=vhost, name=name, page=page)) as pieces:
            async for piece in pieces:
                for entry in piece:
                    yield entry

    async def samples(self, since: int) -> AsyncGenerator[Any]:
        """Yield the number of a new sample, then kind, virtual host, name and counts of each object that changed."""
        async with aclosing(self.pieces_at_once("broker-samples", since=since)) as pieces:
            async for piece in pieces:
                for row in piece:
                    yield row

    async def first(self, kind: str, is_wanted: Callable[[Entry], bool]) -> Entry | None:
        """Return the first wanted object of a kind, with the list's turn given back; None without one."""
        async with aclosing(self.objects(kind)) as found:
            async for each in found:
                if is_wanted(each):
                    return each
        return None

    async def object(self, kind: str, vhost: str | None, name: str) -> Entry | None:
        """Return the object of a name; None without one."""
        found = [each async for each in self.objects(kind, vhost, name)]
        return found[0] if found else None


class BrokerFacts:
    """What a broker says of itself."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry

    def __getitem__(self, name: str) -> Any:
        return self.entry[name]

    @cached_property
    def version(self) -> tuple[int, int]:
        """The RabbitMQ version whose behaviour the broker has, as (4, 3)."""
        major, minor, *_ = self["version"].split(".")
        return int(major), int(minor)

    @property
    def is_4(self) -> bool:
        """Whether the API has the paths, keys and refusals of RabbitMQ 4, and not those of 3.10."""
        return self.version >= (4, 0)

    @property
    def node(self) -> str:
        """The name of the broker's node."""
        return str(self["node"])
