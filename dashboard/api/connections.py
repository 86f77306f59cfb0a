"""Connections, as listed by the proxy and as observed in the traffic, with their channels and consumers."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Annotated, Any, TypeAlias

import msgspec
from fastapi import APIRouter, Query, Response
from fastapi import Path as PathParameter

from amqproxy.control.client_name import client_name
from amqproxy.dashboard.api.control import asked, can, entries_of
from amqproxy.dashboard.api.dependencies import MAX_INTEGER, SourceOf
from amqproxy.dashboard.api.responses import json_response
from amqproxy.dashboard.connection_table import connection_row
from amqproxy.dashboard.connections import SeenConnection
from amqproxy.dashboard.problem import Problem
from amqproxy.dashboard.source import Source
from amqproxy.dashboard.subject import MOST_ROWS

router = APIRouter(tags=["connections"])

SessionOf = Annotated[int, PathParameter(ge=0, le=MAX_INTEGER)]
SessionQuery = Annotated[int | None, Query(ge=0, le=MAX_INTEGER)]

MAX_LISTED = 10_000
"""Maximum number of connections in one response; of more, the newest are returned."""


async def open_connections(source: Source) -> dict[int, dict[str, Any]]:
    """Return the proxy's entries of open connections by session; none for a capture or an unreachable proxy."""
    if not can(source, "connections"):
        return {}
    try:
        listed = await asked(source, "connections")
    except Problem:
        return {}
    return {each["session"]: each for each in entries_of(listed, "connections") if isinstance(each.get("session"), int)}


Known: TypeAlias = tuple[SeenConnection | None, dict[str, Any] | None]
"""A connection as its traffic has shown it, and the proxy's entry; one of them may be missing."""


def known_connections(source: Source, entries: dict[int, dict[str, Any]]) -> list[Known]:
    """Return the newest connections by number, given the proxy's entries of open ones."""
    seen = source.observed.connections.seen
    if source.requests is not None and entries:  # a connection that the proxy does not list has ended
        gone = {number for number, each in seen.items() if each.is_open and number not in entries}
    else:
        gone = set()
    numbers = sorted(entries.keys() | (seen.keys() - gone))[-MAX_LISTED:]
    return [(seen.get(each), entries.get(each)) for each in numbers]


def described(seen: SeenConnection | None, entry: dict[str, Any] | None) -> dict[str, Any]:
    """Return one connection: the proxy's entry unchanged, with the observed traffic in `seen` as far as it is known."""
    shown = None if seen is None else seen.to_dict()
    if entry is not None:
        same = seen is not None and seen.connection == entry.get("connection")
        return {**entry, "is_open": True, "seen": shown if same else None}
    assert seen is not None
    handshake = seen.handshake or {}
    client = handshake.get("client_properties") or {}
    found = {
        "session": seen.stream,
        "connection": seen.connection,
        "connected_at": None if seen.is_joined else seen.since_ns / 1e9,
        "state": "open" if seen.is_open else "closed",
        "blocked": seen.is_blocked,
        "user": handshake.get("user"),
        "vhost": handshake.get("virtual_host"),
        "mechanism": handshake.get("mechanism"),
        "product": client.get("product"),
        "product_version": client.get("version", client.get("qpid.client_version")),
        "platform": client.get("platform"),
        "name": client_name(client),
        "channel_max": handshake.get("channel_max"),
        "frame_max": handshake.get("frame_max"),
        "heartbeat": handshake.get("heartbeat"),
        "channels": seen.channels,
        "bytes": seen.bytes,
    }
    return {**found, "is_open": seen.is_open, "seen": shown}


@router.get("/sources/{source}/connections")
async def list_connections(source: SourceOf) -> Response:
    """The open connections of a proxy, and those that have ended, as far as they are known; by their numbers."""
    listed = known_connections(source, await open_connections(source))
    return await asyncio.to_thread(lambda: json_response({"connections": [described(*each) for each in listed]}))


@router.get("/sources/{source}/connections/changes")
async def list_changes(
    source: SourceOf,
    after: Annotated[int, Query(ge=0, le=MAX_INTEGER)] = 0,
    closed: bool = False,
) -> Response:
    """Connections that have changed since the `version` of an earlier response; without `closed`, only open ones.

    `connections` are new, or changed more than their counters; `counters` are in the order of `counted`; `gone` are the
    numbers to forget. With `is_whole`, the response holds all connections.
    """
    table = source.connection_table
    async with table.lock:
        if table.is_old():
            known = known_connections(source, await open_connections(source))
            await asyncio.to_thread(lambda: table.update([connection_row(*each) for each in known]))
        return await asyncio.to_thread(lambda: json_response(table.changes(after, closed=closed)))


@router.get("/sources/{source}/connections/clients")
async def list_clients(
    source: SourceOf, sessions: Annotated[str, Query(max_length=10_000, pattern=r"^\d{1,16}(,\d{1,16})*$")]
) -> Response:
    """The name and the user of the client of each of these connections, by number; unknown ones are left out."""
    connections = source.observed.connections
    found: dict[str, list[str]] = {}
    for number in sessions.split(","):
        seen = connections.seen.get(int(number))
        if seen is not None:
            party = connections.party(seen.stream, seen.connection)
            found[number] = [party.name, party.user]
    return json_response({"clients": found})


@router.get("/sources/{source}/connections/{session}")
async def show_connection(source: SourceOf, session: SessionOf) -> Response:
    """One connection, with its last errors and findings, and with its channels and consumers where it is open."""
    entry = (await open_connections(source)).get(session)
    seen = source.observed.connections.seen.get(session)
    if entry is None and seen is None:
        raise Problem(404, f"there is no connection {session}")
    found = described(seen, entry)
    for name in ("channels", "consumers"):
        is_there = entry is not None and can(source, name)
        found[f"{name}_list"] = entries_of(await asked(source, name, session=session), name) if is_there else None
    observed = source.observed
    found["errors"] = list(
        islice((each for each in observed.errors.newest_first() if each.stream == session), MOST_ROWS)
    )
    rows = (each for each in reversed(observed.findings.snapshot()) if each.stream == session)
    found["findings"] = [msgspec.Raw(each.to_json()) for each in islice(rows, MOST_ROWS)]
    return json_response(found)


@router.get("/sources/{source}/channels")
async def list_channels(source: SourceOf, session: SessionQuery = None) -> Response:
    """The open channels."""
    return json_response(await asked(source, "channels", session=session))


@router.get("/sources/{source}/consumers")
async def list_consumers(source: SourceOf, session: SessionQuery = None) -> Response:
    """The consumers."""
    return json_response(await asked(source, "consumers", session=session))


@router.get("/sources/{source}/stats")
async def show_stats(source: SourceOf) -> Response:
    """The process, and all that it counts."""
    return json_response(await asked(source, "stats"))
