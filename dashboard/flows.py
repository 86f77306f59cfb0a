"""Message flows: which clients publish to which exchanges, and receive from which queues, with rates and outcomes."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from amqproxy.dashboard.latency_counts import LatencyCounts
from amqproxy.dashboard.minutes import Minutes, Name, client_of
from amqproxy.dashboard.observed_seconds import SECOND, ObservedSeconds, RecentCounts, Window
from amqproxy.dashboard.party import Party
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.record import json_value
from amqproxy.taps.topology.observed_topology import DIRECT_REPLY_TO
from amqproxy.taps.trace.events import MessageDelivered, MessagePublished, TraceEvent

MAX_FLOWS = 5_000
"""Maximum number of flows; beyond it, those without a message for longest are forgotten."""

MAX_KEYS = 20
"""Routing keys of one client at one exchange or queue that are counted separately; further ones are one flow."""

MAX_NAME = 300
"""Characters of a name that are kept. AMQP limits names to 255 bytes."""

PENDING = "pending"
"""Outcome of a record that a final one follows."""

ERRORS = frozenset({"nacked", "rejected", "returned"})
"""Outcomes that count as errors; a publish that was returned is one, whether or not it was confirmed as well."""

FlowKind: TypeAlias = Literal["publish", "deliver"]


class FlowKey(NamedTuple):
    """Ends of a flow. `queue` is `None` for publishes, `routing_key` for those beyond `MAX_KEYS`."""

    kind: FlowKind
    party: Party
    exchange: str
    queue: str | None
    routing_key: str | None


class Arrival(NamedTuple):
    """First delivery of a message whose publish was seen: what it was published to and by whom, and its latency."""

    publisher: Party
    exchange: str
    routing_key: str
    seconds: float


class Flow:
    """Counts of one flow; `latencies` are of confirms or acknowledgements, `transits` from publish to delivery."""

    __slots__ = ("bytes", "errors", "last_ns", "latencies", "messages", "names", "outcomes", "recent", "transits")

    def __init__(self, names: tuple[Name, ...] = ()) -> None:
        self.names = names
        """Names that its messages are counted under."""
        self.messages = self.bytes = self.errors = self.last_ns = 0
        self.outcomes: Counter[str] = Counter()
        self.latencies = LatencyCounts()
        self.transits = LatencyCounts()
        self.recent = RecentCounts()


class FlowRow(msgspec.Struct, frozen=True, kw_only=True):
    """A flow in its JSON form. Rates are per second, latencies in seconds, `None` if there are none.

    `p50` and `p99` are of confirms or acknowledgements, `transit_p50` and `transit_p99` from publish to delivery.
    """

    client: str
    user: str
    vhost: str
    exchange: str
    queue: str | None
    routing_key: str | None
    messages: int
    bytes: int
    errors: int
    rate: float
    outcomes: dict[str, int]
    p50: float | None
    p99: float | None
    transit_p50: float | None
    transit_p99: float | None
    last_ns: int


class Flows:
    """Flows of a source, by key; `forgotten` counts those beyond `MAX_FLOWS`."""

    def __init__(self, *, is_live: bool, minutes: Minutes | None = None) -> None:
        self._is_live = is_live
        self.minutes = minutes or Minutes()
        self.seconds = ObservedSeconds()
        self.forgotten = 0
        self._flows: OrderedDict[FlowKey, Flow] = OrderedDict()
        self._keys: Counter[FlowKey] = Counter()
        """Number of separate routing keys, by the key of the flow of all others."""
        self._first_ns = self._last_ns = 0

    def __len__(self) -> int:
        return len(self._flows)

    def items(self) -> list[tuple[FlowKey, Flow]]:
        """Return all flows, those with the newest messages last."""
        return list(self._flows.items())

    def take(self, party: Party, events: Iterable[TraceEvent], arrivals: Iterable[Arrival | None] = ()) -> None:
        """Count the messages that a client has published and received; `arrivals` has one entry for each received."""
        arriving = iter(arrivals)
        for event in events:
            if isinstance(event, MessagePublished):
                method = event.method
                self._count("publish", party, method.exchange, None, method.routing_key, event.size, event.ts_ns)
            elif isinstance(event, MessageDelivered):
                delivered = event.method
                queue = event.queue or ""
                flow = self._count(
                    "deliver", party, delivered.exchange, queue, delivered.routing_key, event.size, event.ts_ns
                )
                arrival = next(arriving, None)
                if arrival is not None:
                    self._arrive(arrival, flow, event.ts_ns)

    def settle(self, party: Party, record: MessageRecord) -> None:
        """Count the outcome of a message."""
        if record.outcome == PENDING:
            return
        kind = _KINDS.get(record.type)
        if kind is None:
            return
        queue = None if kind == "publish" else record.queue or ""
        flow = self._known(_key(kind, party, record.exchange, queue, record.routing_key))
        if flow is None:
            return
        is_returned = record.type == "publish" and record.code is not None
        flow.outcomes["returned" if is_returned else str(record.outcome)] += 1
        flow.errors += is_returned or record.outcome in ERRORS
        if record.seconds is not None and record.outcome not in ("unknown", "open"):
            flow.latencies.add(record.seconds)
            minute = self.minutes.at(record.ts_ns + int(record.seconds * SECOND))
            (minute.confirm if record.type == "publish" else minute.ack).add(record.seconds)

    def _arrive(self, arrival: Arrival, delivered: Flow, ts_ns: int) -> None:
        """Count the time from a publish to its delivery, of both flows."""
        delivered.transits.add(arrival.seconds)
        self.minutes.at(ts_ns).transit.add(arrival.seconds)
        published = self._known(_key("publish", arrival.publisher, arrival.exchange, None, arrival.routing_key))
        if published is not None:
            published.transits.add(arrival.seconds)

    def _known(self, key: FlowKey) -> Flow | None:
        return self._flows.get(key) or self._flows.get(FlowKey(*key)._replace(routing_key=None))

    def window(self, now_ns: int) -> Window | None:
        """Return the seconds over which rates are computed; `None` for a capture, whose rates are of all of it."""
        return self.seconds.window(now_ns) if self._is_live else None

    def covered(self, window: Window | None) -> float:
        """Return the number of seconds that rates cover, 0 if there are none; of a capture, at least 1."""
        if window is not None:
            return float(len(window.seconds))
        return max(1.0, (self._last_ns - self._first_ns) / SECOND) if self._flows else 0.0

    def rate(self, flow: Flow, window: Window | None) -> float:
        """Return the messages per second of a flow."""
        seconds = self.covered(window)
        if not seconds:
            return 0.0
        return (flow.messages if window is None else flow.recent.total(window.seconds)) / seconds

    def rows(self, items: Iterable[tuple[FlowKey, Flow]], window: Window | None) -> Iterator[FlowRow]:
        """Yield flows in their JSON form."""
        for key, flow in items:
            yield FlowRow(
                client=key.party.name,
                user=key.party.user,
                vhost=key.party.vhost,
                exchange=key.exchange,
                queue=key.queue,
                routing_key=key.routing_key,
                messages=flow.messages,
                bytes=flow.bytes,
                errors=flow.errors,
                rate=self.rate(flow, window),
                outcomes=dict(flow.outcomes),
                p50=flow.latencies.percentile(0.5),
                p99=flow.latencies.percentile(0.99),
                transit_p50=flow.transits.percentile(0.5),
                transit_p99=flow.transits.percentile(0.99),
                last_ns=flow.last_ns,
            )

    def _count(
        self,
        kind: FlowKind,
        party: Party,
        exchange: str,
        queue: str | None,
        routing_key: str,
        size: int | None,
        ts_ns: int,
    ) -> Flow:
        self._last_ns = max(self._last_ns, ts_ns)
        self._first_ns = self._first_ns or ts_ns
        key = _key(kind, party, exchange, queue, routing_key)
        flow = self._flow(key)
        flow.messages += 1
        flow.bytes += size or 0
        flow.last_ns = ts_ns
        flow.recent.add(ts_ns)
        self.minutes.count(flow.names, ts_ns)
        return flow

    def _flow(self, key: FlowKey) -> Flow:
        flow = self._flows.get(key)
        if flow is None:
            key = FlowKey(*key)
            others = key._replace(routing_key=None)
            if self._keys[others] >= MAX_KEYS:
                key = others
                flow = self._flows.get(key)
            else:
                self._keys[others] += 1
            if flow is None:
                flow = self._flows[key] = Flow(_names(key))
                if len(self._flows) > MAX_FLOWS:
                    self._forget()
                return flow
        self._flows.move_to_end(key)
        return flow

    def _forget(self) -> None:
        key, _ = self._flows.popitem(last=False)
        self.forgotten += 1
        if key.routing_key is not None:
            others = key._replace(routing_key=None)
            self._keys[others] -= 1
            if not self._keys[others]:
                del self._keys[others]


def _key(kind: FlowKind, party: Party, exchange: Any, queue: Any, routing_key: Any) -> FlowKey:
    """Return a key to look a flow up with: a plain tuple, which equals a `FlowKey`, and takes less time to make."""
    shown_queue = None if queue is None else shown(queue)
    return kind, party, shown(exchange), shown_queue, shown(routing_key)  # type: ignore[return-value]


_KINDS: dict[str, FlowKind] = {"publish": "publish", "deliver": "deliver", "get": "deliver"}


def _names(key: FlowKey) -> tuple[Name, ...]:
    """Return the names that a flow's messages are counted under: an exchange's are those published to it."""
    party = key.party
    client = client_of(party)
    if key.queue is not None:
        return (client, Name("queue", key.queue, party.vhost)) if key.queue else (client,)
    return client, Name("exchange", key.exchange, party.vhost)


def shown(name: Any) -> str:
    """Return a name as JSON can represent it, without the random part of RabbitMQ's direct replies."""
    return _shown(name) if type(name) is str else _shortened(_text(name))


@lru_cache(4096)
def _shown(name: str) -> str:
    return _shortened(name if name.isascii() else _text(name))


def _shortened(text: str) -> str:
    if text.startswith(DIRECT_REPLY_TO):
        return DIRECT_REPLY_TO
    return text if len(text) <= MAX_NAME else f"{text[:MAX_NAME]}…"


def _text(name: Any) -> str:
    found = json_value(name)  # of a record, it is in JSON form already
    return found if isinstance(found, str) else str(found)
