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
from amqproxy.management.recent_answers import Counted, RecentAnswers

Entry = dict[str, Any]

FRESH_SECONDS = 0.5
"""Seconds for which the broker's facts are kept: every request needs some of them."""

KEPT = 8
"""Connections to the control socket that stay open between requests."""


class BrokerSource(ProxyRequests):
    """Requests to the broker's control socket."""

    def __init__(self, path: Path, patience: float = PATIENCE) -> None:
        super().__init__(path, patience, KEPT)
        self.recent = RecentAnswers()
        self._facts: BrokerFacts | None = None
        self._asked_at = 0.0
        self._looking_up: asyncio.Task[BrokerFacts] | None = None

    async def facts(self) -> BrokerFacts:
        """Return the broker's version, listeners, resources and alarms, at most `FRESH_SECONDS` old."""
        if self._facts is not None and time.monotonic() - self._asked_at <= FRESH_SECONDS:
            return self._facts
        if self._looking_up is None or self._looking_up.done():
            self._looking_up = asyncio.create_task(self._look_up())
        looking_up = self._looking_up
        found = await asyncio.shield(looking_up)  # others wait for it too
        if looking_up is self._looking_up:  # and nothing was changed meanwhile
            self._facts = found
        return found

    async def _look_up(self) -> BrokerFacts:
        self._asked_at = time.monotonic()
        return BrokerFacts(await self.ask("broker"))

    def forget(self) -> None:
        """Ask the broker anew for all that may be different after a change."""
        self._facts = self._looking_up = None
        self.recent.forget()

    async def objects(
        self, kind: str, vhost: str | None = None, name: str | None = None, page: Entry | None = None
    ) -> AsyncGenerator[Entry]:
        """Yield the broker's objects of one kind, a piece in memory at a time; of queues, perhaps a page."""
        async with aclosing(self.pieces("broker-objects", kind=kind, vhost=vhost, name=name, page=page)) as pieces:
            async for piece in pieces:
                for entry in piece:
                    yield entry

    async def totals(self) -> Entry:
        """Return the totals of all objects, which may be as old as `RecentAnswers` allows."""

        async def ask() -> Counted:
            [entry] = [each async for each in self.objects("totals")]
            return Counted(entry["queues"], [entry])

        return (await self.recent.get("totals", ask)).entries[0]

    async def vhosts(self) -> list[Entry]:
        """Return the virtual hosts with their numbers, which may be as old."""

        async def ask() -> Counted:
            found = [each async for each in self.objects("vhosts")]
            return Counted(sum(each["queues"] for each in found), found)

        return (await self.recent.get("vhosts", ask)).entries

    async def queue_page(self, vhost: str | None, page: Entry) -> tuple[Entry, list[Entry]]:
        """Return the numbers of queues, all and chosen, and those of a page, which may be as old."""

        async def ask() -> Counted:
            found = [each async for each in self.objects("queues", vhost, page=page)]
            return Counted(found[0]["total"], found)

        numbers, *rows = (await self.recent.get(("page", vhost, repr(page)), ask)).entries
        return numbers, rows

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
    """Facts of a broker: version, node, limits, resources."""

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
