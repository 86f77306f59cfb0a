"""Topology, message flows, and the pages of clients, users, exchanges and queues."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Response

from amqproxy.dashboard.api.connections import known_connections, open_connections
from amqproxy.dashboard.api.control import asked, entries_of
from amqproxy.dashboard.api.dependencies import SourceOf
from amqproxy.dashboard.api.responses import json_response
from amqproxy.dashboard.connection_table import connection_row
from amqproxy.dashboard.observed_seconds import Window
from amqproxy.dashboard.problem import Problem
from amqproxy.dashboard.source import Source
from amqproxy.dashboard.subject import (
    MOST,
    Subject,
    SubjectKind,
    errors_of,
    findings_of,
    flow_lists,
    streams_of,
    subject_totals,
)

router = APIRouter(tags=["topology"])

MAX_FLOWS_LISTED = 1_000
"""Maximum number of flows to exchanges, and from queues, in one response: the fastest."""

Name = Annotated[str, Query(max_length=1000)]
OptionalName = Annotated[str | None, Query(max_length=1000)]


async def topology_of(source: Source, vhost: str | None, *, deleted: bool) -> dict[str, Any]:
    """Return the topology: that which the proxy knows, or that of a capture."""
    traced = source.observed.topology
    if traced is None:
        return await asked(source, "topology", vhost=vhost, deleted=deleted or None)
    entries = await asyncio.to_thread(lambda: [msgspec.to_builtins(each) for each in list(traced.entries(vhost))])
    return {"topology": entries, "forgotten": traced.objects.forgotten}


def rate_span(source: Source, window: Window | None) -> dict[str, Any]:
    """Return the seconds that rates cover, 0 if there are none, and whether all their traffic was observed."""
    return {
        "seconds": source.observed.flows.covered(window),
        "is_complete": window is None or window.is_complete,
    }


@router.get("/sources/{source}/topology")
async def show_topology(source: SourceOf, vhost: OptionalName = None, deleted: bool = False) -> Response:
    """Exchanges, queues, bindings and consumers, as clients made or used them; of a capture, with those deleted."""
    return json_response(await topology_of(source, vhost, deleted=deleted))


@router.get("/sources/{source}/flows")
async def show_flows(source: SourceOf) -> Response:
    """Flows of clients to exchanges and from queues, by routing key; the fastest first.

    `rate` is of the last minute, without the seconds in which traffic was lost (unless that were all: then it is not
    `is_complete`); of a capture, of all of it. `p50` and `p99` are of confirms and of acknowledgements, in seconds.
    """
    flows = source.observed.flows
    window = flows.window(time.time_ns())
    listed = flow_lists(flows, lambda key: True, window, MAX_FLOWS_LISTED)
    return json_response({**rate_span(source, window), "forgotten": flows.forgotten, **listed})


@router.get("/sources/{source}/subjects/{kind}")
async def show_subject(
    source: SourceOf, kind: SubjectKind, name: Name, user: OptionalName = None, vhost: OptionalName = None
) -> Response:
    """A client, a user, an exchange or a queue: rates, latencies, flows, errors, findings, declaration, consumers.

    `user` distinguishes clients of one name, `vhost` exchanges and queues of one name.
    """
    observed, subject = source.observed, Subject(kind, name, user, vhost)
    window = observed.flows.window(time.time_ns())
    sums = subject_totals(observed.flows, subject, window)
    listed = flow_lists(observed.flows, subject.has_flow, window, MOST)
    try:
        topology = entries_of(await topology_of(source, vhost, deleted=True), "topology")
    except Problem:
        topology = []  # a proxy that takes no note of what clients declare
    objects = [each for each in topology if subject.has_object(each)]
    streams = streams_of(observed.connections, subject)
    numbers = frozenset(streams)
    entries = await open_connections(source) if streams else {}
    known = {_number(each): each for each in known_connections(source, entries)} if streams else {}
    rows = [connection_row(*known[each]) for each in streams if each in known]
    findings = list(findings_of(observed.findings, subject, numbers))
    return json_response(
        {
            "kind": kind,
            "name": name,
            **rate_span(source, window),
            "totals": sums,
            **listed,
            "errors": errors_of(observed.errors, subject),
            "findings": [msgspec.Raw(each) for each in findings],
            "objects": [each for each in objects if each["kind"] not in ("binding", "consumer")],
            "bindings": [each for each in objects if each["kind"] == "binding"][:MOST],
            "consumers": [each for each in objects if each["kind"] == "consumer"][:MOST],
            "declared": [each for each in topology if is_declared_by(each, numbers)][:MOST],
            "connections": [{**each.facts, "state": each.counters[0]} for each in rows[:MOST]],
            "connection_count": len(rows),
        }
    )


def _number(known: tuple[Any, Any]) -> int:
    seen, entry = known
    return int(entry["session"] if seen is None else seen.stream)


def is_declared_by(entry: dict[str, Any], streams: frozenset[int]) -> bool:
    """Whether one of these connections has declared an object."""
    by = entry.get("declared_by")
    return by is not None and by.get("session") in streams
