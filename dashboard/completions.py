"""Completions of a filter: the fields of the filter language, and values that were seen."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from amqproxy.conversion.client_name import given_name
from amqproxy.dashboard.connections import SeenConnection
from amqproxy.dashboard.message_ring import MessageRow
from amqproxy.rules.matching.attributes import NAMES

SECONDS = 0.2
"""Seconds for which rows are looked at, the newest first."""

CHECKED = 512
"""Rows between two checks of the clock."""

MAX_VALUES = 100
"""Maximum number of values of a field, the most frequent first."""

MAX_COUNTED = 5000
"""Maximum number of values of a field that are counted."""

MAX_LENGTH = 255
"""Length limit of a value in characters; longer ones are left out."""


class _Record(msgspec.Struct):
    """The fields of a record whose values complete a filter."""

    exchange: str | None = None
    queue: str | None = None
    routing_key: str | None = None
    consumer_tag: str | None = None
    method: str | None = None


_decode = msgspec.json.Decoder(_Record).decode

_REQUESTED = ("queue", "exchange", "routing_key")


def fields() -> list[dict[str, str]]:
    """Return the fields of the filter language, with the kind of each and its meaning."""
    return [{"path": name.path, "kind": str(name.kind), "meaning": name.meaning} for name in NAMES.values()]


def seen_values(
    rows: list[MessageRow], connections: Iterable[SeenConnection], clock: Callable[[], float] = time.monotonic
) -> dict[str, list[str]]:
    """Return the values of the newest messages and of the connections by field, within `SECONDS`."""
    stop_at = clock() + SECONDS
    counts: dict[str, Counter[str]] = {}

    def count(path: str, value: Any) -> None:
        found = counts.setdefault(path, Counter())
        if isinstance(value, str) and len(value) <= MAX_LENGTH and (value in found or len(found) < MAX_COUNTED):
            found[value] += 1

    for each in connections:
        handshake = each.handshake or {}
        count("user", handshake.get("user"))
        count("vhost", handshake.get("vhost"))
        properties = handshake.get("client_properties")
        if isinstance(properties, Mapping):
            count("client.name", given_name(properties) or None)
    for looked_at, row in enumerate(reversed(rows), 1):
        if looked_at % CHECKED == 0 and clock() > stop_at:
            break
        record = _decode(row.json)
        for name in _Record.__struct_fields__:
            count(name, getattr(record, name))
        if row.content is not None:
            count("method", row.content.method.name)
            if not row.content.method.carries_content:
                for name in _REQUESTED:
                    count(name, getattr(row.content.method, name, None))
    return {path: [value for value, _ in found.most_common(MAX_VALUES)] for path, found in counts.items() if found}
