"""A client, user, exchange or queue, and what the observed traffic says about it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from amqproxy.dashboard.connections import Connections
from amqproxy.dashboard.error_log import ErrorLog, SeenError
from amqproxy.dashboard.flows import Flow, FlowKey, FlowRow, Flows
from amqproxy.dashboard.latency_counts import LatencyCounts
from amqproxy.dashboard.message_ring import MessageRing
from amqproxy.dashboard.observed_seconds import Window
from amqproxy.dashboard.party import Party, host_of

SubjectKind: TypeAlias = Literal["client", "user", "exchange", "queue"]

MOST = 100
"""Maximum number of flows of each kind, of connections, bindings and consumers that are shown."""

MOST_ROWS = 50
"""Maximum number of findings and of errors that are shown, the newest."""

DEFAULT_EXCHANGE = ""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums of the flows of one kind; see `FlowRow`."""

    messages: int
    bytes: int
    errors: int
    rate: float
    outcomes: dict[str, int]
    p50: float | None
    p99: float | None
    transit_p50: float | None
    transit_p99: float | None
    counts: list[int]
    """Messages of each second of the window."""


class Subject(msgspec.Struct, frozen=True):
    """A name of some kind; `user` distinguishes clients of one name, `vhost` exchanges and queues; `None` is any."""

    kind: SubjectKind
    name: str
    user: str | None = None
    vhost: str | None = None

    def has_party(self, party: Party) -> bool:
        """Whether this is the client, or its user."""
        if self.kind == "user":
            return party.user == self.name
        return self.kind == "client" and party.name == self.name and self.user in (None, party.user)

    def has_flow(self, key: FlowKey) -> bool:
        """Whether one end of the flow is this, or the flow passes through it."""
        if self.kind in ("client", "user"):
            return self.has_party(key.party)
        if self.vhost not in (None, key.party.vhost):
            return False
        if self.kind == "exchange":
            return key.exchange == self.name
        # The default exchange routes to the queue that the routing key names.
        return key.queue == self.name or (
            key.queue is None and key.exchange == DEFAULT_EXCHANGE and key.routing_key == self.name
        )

    def has_error(self, error: SeenError) -> bool:
        """Whether an error is this client's or user's, or concerns this exchange or queue."""
        if self.kind in ("client", "user"):
            return self.has_party(Party(error.client, error.user, error.vhost))
        if self.vhost not in (None, error.vhost):
            return False
        if self.kind == "exchange":
            return error.exchange == self.name
        return error.queue == self.name or (error.exchange == DEFAULT_EXCHANGE and error.routing_key == self.name)

    def has_object(self, entry: Mapping[str, Any]) -> bool:
        """Whether an entry of the topology is this, one of its bindings or consumers, or was declared by it."""
        kind = entry.get("kind")
        if self.kind in ("client", "user"):
            return kind == "consumer" and self.has_party(consumer_party(entry))
        if self.vhost not in (None, entry.get("vhost")):
            return False
        match kind:
            case "binding":
                is_destination = entry.get("destination_type") == self.kind and entry.get("destination") == self.name
                return is_destination or (self.kind == "exchange" and entry.get("source") == self.name)
            case "consumer":
                return self.kind == "queue" and entry.get("queue") == self.name
            case _:
                return kind == self.kind and entry.get("name") == self.name


def consumer_party(entry: Mapping[str, Any]) -> Party:
    """Return the client of a consumer's entry."""
    name = entry.get("name") or host_of(str(entry.get("connection", "")))
    return Party(str(name), str(entry.get("user") or ""), str(entry.get("vhost") or ""))


def totals(flows: Flows, items: Iterable[tuple[FlowKey, Flow]], window: Window | None) -> Totals:
    """Return the sums of flows."""
    messages = size = errors = 0
    rate = 0.0
    outcomes: Counter[str] = Counter()
    latencies, transits = LatencyCounts(), LatencyCounts()
    seconds = () if window is None else window.seconds
    counts = [0] * len(seconds)
    for _, flow in items:
        messages, size, errors = messages + flow.messages, size + flow.bytes, errors + flow.errors
        rate += flows.rate(flow, window)
        outcomes.update(flow.outcomes)
        latencies.absorb(flow.latencies)
        transits.absorb(flow.transits)
        for place, second in enumerate(seconds):
            counts[place] += flow.recent.at(second)
    return Totals(
        messages=messages,
        bytes=size,
        errors=errors,
        rate=rate,
        outcomes=dict(outcomes),
        p50=latencies.percentile(0.5),
        p99=latencies.percentile(0.99),
        transit_p50=transits.percentile(0.5),
        transit_p99=transits.percentile(0.99),
        counts=counts,
    )


def flow_lists(
    flows: Flows, chosen: Callable[[FlowKey], bool], window: Window | None, most: int
) -> dict[str, list[FlowRow]]:
    """Return the chosen flows as `published` and `delivered`: at most `most` of each, the fastest first."""
    rows: dict[str, list[FlowRow]] = {"published": [], "delivered": []}
    for (key, _), row in zip(found := _chosen(flows, chosen), flows.rows(found, window), strict=True):
        rows["published" if key.kind == "publish" else "delivered"].append(row)
    return {
        name: sorted(each, key=lambda row: (row.rate, row.messages), reverse=True)[:most] for name, each in rows.items()
    }


def subject_totals(flows: Flows, subject: Subject, window: Window | None) -> dict[str, Totals]:
    """Return the sums of a subject's publishes and of its deliveries."""
    found = _chosen(flows, subject.has_flow)
    return {
        "published": totals(flows, [each for each in found if each[0].kind == "publish"], window),
        "delivered": totals(flows, [each for each in found if each[0].kind == "deliver"], window),
    }


def _chosen(flows: Flows, chosen: Callable[[FlowKey], bool]) -> list[tuple[FlowKey, Flow]]:
    return [each for each in flows.items() if chosen(each[0])]


def streams_of(connections: Connections, subject: Subject) -> list[int]:
    """Return the numbers of a client's or a user's connections, the newest first."""
    if subject.kind not in ("client", "user"):
        return []
    seen = sorted(connections.seen.values(), key=lambda each: each.stream, reverse=True)
    return [each.stream for each in seen if subject.has_party(connections.party(each.stream, each.connection))]


def findings_of(ring: MessageRing, subject: Subject, streams: frozenset[int]) -> Iterator[bytes]:
    """Yield the newest findings of these connections, or those that name the exchange or queue, as JSON."""
    # Findings name these in their text only: "queue orders has got …".
    name = re.compile(rf"\b{subject.kind} {re.escape(subject.name)}(?![\w.-])")
    found = 0
    for row in reversed(ring.snapshot()):
        if row.stream not in streams:
            if subject.kind in ("client", "user") or not subject.name:
                continue
            if not name.search(msgspec.json.decode(row.json, type=_Text).text):
                continue
        yield row.to_json()
        found += 1
        if found == MOST_ROWS:
            return


class _Text(msgspec.Struct):
    """Text of a finding."""

    text: str = ""


def errors_of(log: ErrorLog, subject: Subject) -> list[SeenError]:
    """Return the newest errors of a subject."""
    return [each for each in log.newest_first() if subject.has_error(each)][:MOST_ROWS]
