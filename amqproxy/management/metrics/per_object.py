"""The metrics of single objects, for chosen families; the broker is asked for each kind of object once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import aclosing, contextmanager

from amqproxy.management.call import Call, Entry
from amqproxy.management.failure import Failure
from amqproxy.management.metrics import node
from amqproxy.management.metrics.aggregated import aggregated_text
from amqproxy.management.metrics.families import FAMILIES, Column, Family
from amqproxy.management.metrics.metric import DETAILED_PREFIX, PREFIX, Labels

CLUSTER_PREFIX = "rabbitmq_cluster_"

IDENTITY = ("vhost", "name", "type", "connection", "channel")
"""Keys of entries that labels are made of."""

READ_AT_ONCE = 500
"""Objects that are read before other requests have their turn."""

MOST_ANSWERS = 4
"""Answers that are made at a time; each holds the numbers of all objects, about 20 MiB for 50,000 queues."""

NODE_FAMILIES = {
    "connection_churn_metrics": node.churn,
    "node_coarse_metrics": node.coarse,
    "node_metrics": node.limits,
    "auth_attempt_metrics": node.logins,
}
"""Families of the node, which have no objects."""

Row = tuple[tuple[str | int | None, ...], list[float | None]]
"""An object's `IDENTITY`, and its values."""


class _Answers:
    """Number of answers that are being made."""

    def __init__(self) -> None:
        self._number = 0

    @contextmanager
    def one_more(self) -> Iterator[None]:
        if self._number >= MOST_ANSWERS:
            raise Failure(503, "service_unavailable", "other lists take too much memory: ask again")
        self._number += 1
        try:
            yield
        finally:
            self._number -= 1


_answers = _Answers()


async def per_object(call: Call) -> AsyncGenerator[bytes]:
    """Yield the metrics of all objects, and of the broker those that objects do not have."""
    families = [family for family in FAMILIES.values() if not family.is_of_cluster]
    with _answers.one_more():
        async for chunk in _of_families(call, families, PREFIX, ()):
            yield chunk
        yield await aggregated_text(call, "per-object", has_objects=False)


async def detailed(call: Call, names: Collection[str], vhosts: Collection[str]) -> AsyncGenerator[bytes]:
    """Yield the metrics of the families of these names, as far as they exist, in these virtual hosts, or in all."""
    version = call.facts.version
    with _answers.one_more():
        chosen = [family for name, family in FAMILIES.items() if name in names]
        for is_of_cluster, prefix in ((False, DETAILED_PREFIX), (True, CLUSTER_PREFIX)):
            part = [family for family in chosen if family.is_of_cluster == is_of_cluster]
            async for chunk in _of_families(call, part, prefix, vhosts):
                yield chunk
        found = [part for name, parts in NODE_FAMILIES.items() if name in names for part in parts(call)]
        lines = [
            line
            for metric, samples in found
            if metric.exists_in(version)
            for line in metric.text(samples, DETAILED_PREFIX)
        ]
        metric, samples = node.identity(call, "detailed")
        yield b"".join([*lines, *metric.text(samples)])


async def _of_families(
    call: Call, families: Sequence[Family], prefix: str, vhosts: Collection[str]
) -> AsyncGenerator[bytes]:
    written: set[str] = set()
    for kind, is_of_vhost in dict.fromkeys((family.kind, family.is_of_vhost) for family in families):
        columns: dict[str, Column] = {}
        for family in families:
            if (family.kind, family.is_of_vhost) == (kind, is_of_vhost):
                columns |= {
                    each.metric.name: each
                    for each in family.columns
                    if each.metric.exists_in(call.facts.version) and each.metric.name not in written
                }
        written |= columns.keys()
        rows = await _read(call, kind, list(columns.values()), vhosts if is_of_vhost else ())
        for place, column in enumerate(columns.values()):
            for chunk in column.metric.text(_samples(rows, place, column), prefix):
                yield chunk
                await asyncio.sleep(0)


async def _read(call: Call, kind: str, columns: Sequence[Column], vhosts: Collection[str]) -> list[Row]:
    rows: list[Row] = []
    if not columns:
        return rows
    async with aclosing(call.broker.objects(kind)) as entries:
        async for entry in entries:
            if not vhosts or _vhost(kind, entry) in vhosts:
                rows.append((tuple(map(entry.get, IDENTITY)), [column.value(entry) for column in columns]))
            if not len(rows) % READ_AT_ONCE:
                await asyncio.sleep(0)
    return rows


def _vhost(kind: str, entry: Entry) -> str:
    return str(entry["name" if kind == "vhosts" else "vhost"])


def _samples(rows: Sequence[Row], place: int, column: Column) -> Iterator[tuple[Labels, float]]:
    for identity, values in rows:
        value = values[place]
        if value is not None:
            yield column.labels(dict(zip(IDENTITY, identity, strict=True))), value
