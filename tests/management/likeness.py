"""Comparison of two management APIs' answers: the same but for what is volatile, or documented as absent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from amqproxy.management.differences import ABSENT_KEYS, OWN_VALUES
from tests.management.api import Answer

HEADERS = ("content-type", "www-authenticate", "location")
"""Headers that clients read, besides Allow."""

VOLATILE = frozenset(
    {
        *("connected_at", "peer_port", "port", "ports", "os_pid", "uptime", "run_queue", "password_hash"),
        *("disk_free", "disk_free_limit", "mem_limit", "mem_used", "memory", "recv_oct", "send_oct"),
        *(
            "rate",
            "avg",
            "avg_rate",
            "samples",
            "fd_total",
            "connection_created",
            "connection_closed",
            "fd_used",
            "ip_address",
            "proc_used",
            "processors",
            "sockets_total",
            "sockets_used",
        ),
        *("Commit Index", "Last Applied", "Last Log Index", "Last Written", "Machine Version", "Snapshot Index"),
        *("Term", "shovels.state", "shovels.reason", "shovels.timestamp"),
    }
)
"""Keys whose values differ between two brokers, or two moments."""

OF_THE_INSTALLATION = frozenset(
    {
        *("RABBIT-CR-DEMO", "amq.rabbitmq.log", "cluster_tags", "clustering", "internal_cluster_id"),
        "management_metrics_collection",
        "x-federation-upstream",
        "stream",
    }
)
"""Names of entries of lists that only RabbitMQ has: its cluster's listener, a demonstration, and the like."""

UNORDERED = frozenset({"exchange_types", "auth_mechanisms", "listeners", "protocols", "deprecated-features"})
"""Lists without an order of their own, as are those of definitions."""

NODE = re.compile(r"amqproxy(-\d+)?@localhost")
ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
HASHED = re.compile(r"~[\w-]{6}$")


def differences(theirs: Answer, ours: Answer, path: str) -> list[str]:
    """The differences between RabbitMQ's answer and ours."""
    if theirs.status != ours.status:
        return [f"status {theirs.status} and {ours.status}: {theirs.body[:200]!r} and {ours.body[:200]!r}"]
    found = [
        f"{name}: {theirs.headers.get(name)!r} and {ours.headers.get(name)!r}"
        for name in HEADERS
        if theirs.headers.get(name) != ours.headers.get(name)
    ]
    if extra := _methods(ours) - _methods(theirs) - {"HEAD"}:
        found.append(f"methods that RabbitMQ does not allow: {sorted(extra)}")
    if theirs.body or ours.body:
        resource = path.partition("?")[0].partition("/")[0]
        found += _of_values(_normal(theirs.json, resource), _normal(ours.json, resource), resource, resource)
    return found


def _methods(answer: Answer) -> set[str]:
    return set(filter(None, answer.headers.get("allow", "").split(", ")))


def _is_among(key: str, resource: str, listed: Any) -> bool:
    return key in listed or f"{resource}.{key}" in listed


def _of_values(theirs: Any, ours: Any, place: str, resource: str) -> Iterator[str]:
    key = re.sub(r"\[\d+\]", "", place.rpartition(".")[2])
    if _is_among(key, resource, OWN_VALUES) or _is_among(key, resource, VOLATILE):
        if type(theirs) is not type(ours) and not (_is_number(theirs) and _is_number(ours)):
            yield f"{place}: {theirs!r} and {ours!r}"
    elif isinstance(theirs, dict) and isinstance(ours, dict):
        for name in sorted(theirs.keys() - ours.keys()):
            if not (_is_among(name, resource, ABSENT_KEYS) or name.endswith("_details")):
                yield f"{place}.{name} is absent: {theirs[name]!r}"
        for name in sorted(ours.keys() - theirs.keys()):
            if not _is_among(name, resource, VOLATILE):
                yield f"{place}.{name} is ours alone: {ours[name]!r}"
        for name in sorted(theirs.keys() & ours.keys()):
            yield from _of_values(theirs[name], ours[name], f"{place}.{name}", resource)
    elif isinstance(theirs, list) and isinstance(ours, list):
        if len(theirs) != len(ours):
            yield f"{place}: {len(theirs)} and {len(ours)} entries: {theirs!r:.300} and {ours!r:.300}"
            return
        for number, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from _of_values(one, other, f"{place}[{number}]", resource)
    elif theirs != ours or (type(theirs) is not type(ours) and not _is_number(theirs)):
        yield f"{place}: {theirs!r} and {ours!r}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _normal(value: Any, key: str) -> Any:
    """The value without the names of nodes and addresses; lists without an order are sorted."""
    if isinstance(value, str):
        return HASHED.sub("~hash", ADDRESS.sub("ADDRESS", NODE.sub("NODE", value)))
    if isinstance(value, dict):
        unordered = key in ("definitions", "all-configuration")
        return {
            NODE.sub("NODE", name): _normal(each, "exchange_types" if unordered and isinstance(each, list) else name)
            for name, each in value.items()
        }
    if isinstance(value, list):
        found = [_normal(each, "") for each in value if not _is_theirs_alone(each)]
        if key in UNORDERED:
            found.sort(key=_order)
        return found
    return value


def _is_theirs_alone(entry: Any) -> bool:
    name = entry.get("name", entry.get("protocol")) if isinstance(entry, dict) else entry
    return isinstance(name, str) and name in OF_THE_INSTALLATION


def _order(entry: Any) -> str:
    """The key of an entry in a list without an order: of what identifies it."""
    if not isinstance(entry, dict):
        return str(entry)
    names = ("user", "vhost", "source", "destination", "routing_key", "component", "protocol", "name")
    return json.dumps([entry.get(name) for name in names])
