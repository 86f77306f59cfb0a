"""Objects of the integrated broker, a page of them at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import msgspec

from amqproxy.control.proxy_requests import ProxyRequests
from amqproxy.dashboard.policy_reach import Reach, ReachCounter, Trial

Entry = dict[str, Any]

SECRETS = frozenset({"password_hash", "hashing_algorithm"})
"""Keys of users that browsers do not get."""


class ObjectPage(msgspec.Struct):
    """A page of a list: `total` counts all objects, `filtered` those that are chosen."""

    total: int
    filtered: int
    objects: list[Entry]


async def pieces_of(
    requests: ProxyRequests, kind: str, vhost: str | None = None, name: str | None = None, page: Entry | None = None
) -> AsyncGenerator[list[Entry]]:
    """Yield the objects of a kind in pieces; `RequestError` as `ProxyRequests` raises it."""
    async with aclosing(requests.pieces("broker-objects", kind=kind, vhost=vhost, name=name, page=page)) as pieces:
        async for piece in pieces:
            yield piece


async def queue_page(requests: ProxyRequests, vhost: str | None, page: Entry) -> ObjectPage:
    """Return a page of queues, which the broker sorts and selects: `page` has its terms, among them a `count`."""
    found: list[Entry] = []
    async for piece in pieces_of(requests, "queues", vhost, page=page):
        found += piece
    numbers, *queues = found
    return ObjectPage(numbers["total"], numbers["filtered"], queues)


async def object_page(
    pieces: AsyncGenerator[list[Entry]], is_chosen: Callable[[Entry], bool], offset: int, count: int
) -> ObjectPage:
    """Return a page of the objects that come in pieces, of which no others are kept.

    `is_chosen` gets objects without their secrets: a search could otherwise tell whether a hash holds a text.
    """
    page = ObjectPage(0, 0, [])
    async with aclosing(pieces):
        async for piece in pieces:
            for each in piece:
                page.total += 1
                shown = {key: value for key, value in each.items() if key not in SECRETS}
                if is_chosen(shown):
                    if offset <= page.filtered < offset + count:
                        page.objects.append(shown)
                    page.filtered += 1
    return page


async def first_of(pieces: AsyncGenerator[list[Entry]]) -> Entry | None:
    """Return the first object; None without one."""
    async with aclosing(pieces):
        async for piece in pieces:
            for each in piece:
                return each
    return None


async def reach_of(
    requests: ProxyRequests, vhost: str, trial: Trial, is_given_up: Callable[[], Awaitable[bool]]
) -> Reach | None:
    """Return what a policy would apply to in a virtual host; None once nobody waits for it any more.

    Patterns are compared in threads: some take a millisecond for a name, and there may be 50,000 names.
    """
    kind = "operator-policies" if trial.is_operator else "policies"
    others = [each async for piece in pieces_of(requests, kind, vhost) for each in piece]
    counter = ReachCounter(trial, others)
    is_known = any(each["name"] == trial.name for each in others)  # then it may apply to objects of both kinds
    if is_known or trial.apply_to != "exchanges":
        async for piece in pieces_of(requests, "queues", vhost):
            if await is_given_up():
                return None
            await asyncio.to_thread(counter.add_queues, piece)
    if (is_known or trial.apply_to in ("all", "exchanges")) and not trial.is_operator:
        async for piece in pieces_of(requests, "exchanges", vhost):
            if await is_given_up():
                return None
            await asyncio.to_thread(counter.add_exchanges, piece)
    return counter.reach
