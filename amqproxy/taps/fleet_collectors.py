"""Collectors for Prometheus of facts that others keep: upstream groups, switches and certificates, on each scrape.

A scrape runs in a thread of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from amqproxy.taps.pool_metrics import CountedPools

MEMBER_STATES = ("up", "slow start", "ejected", "down", "draining")
"""States of the members of upstreams."""

SWITCH_PHASES = (
    "at source",
    "clients to target",
    "messages to target",
    "at target",
    "clients to source",
    "messages to source",
)
"""Phases of switches between upstreams."""


class CountedMember(Protocol):
    """Counts of one broker of an upstream group."""

    address: str
    connections: int
    picks: int
    retries: int
    ejections: int
    downs: int
    connect_seconds: float
    tls_handshakes: int
    failures_by_kind: dict[str, int]


class CountedQueue(Protocol):
    """Counts of a queue of clients that wait to connect."""

    admitted: int
    refused: int
    seconds: float

    def __len__(self) -> int: ...


class CountedGroup(Protocol):
    """An upstream group, as metrics export it."""

    name: str
    pools: CountedPools | None
    """The connections that its clients share, if they do."""

    def states(self) -> list[tuple[Any, str]]:
        """Return the members, each with the name of its standing."""

    @property
    def is_in_panic(self) -> bool:
        """Whether more members fail than may be left out."""

    @property
    def logins(self) -> CountedQueue | None:
        """The queue of clients that wait to log in, if their rate is limited."""


class SwitchCounts(NamedTuple):
    """Counts of the switch `name`, which is in a `phase`.

    `clients` have to move; `told` were told to reconnect, and `moved` messages were moved, since the proxy began.
    `left` messages are left in the latest move, which `waits` for something if that is so.
    """

    name: str
    phase: str
    clients: int = 0
    told: int = 0
    moved: int = 0
    left: int = 0
    waits: bool = False


class UpstreamCollector(Collector):
    """Exports the members of upstream groups."""

    def __init__(self, groups: Callable[[], Iterable[CountedGroup]]) -> None:
        self._groups = groups

    def collect(self) -> Iterator[Metric]:
        labels = ["upstream", "member"]
        text = "The state of a member of an upstream: 1 for the one that it is in, else 0."
        states = GaugeMetricFamily("amqproxy_upstream_member_state", text, labels=[*labels, "state"])
        text = "Client connections that a member serves."
        connections = GaugeMetricFamily("amqproxy_upstream_member_connections", text, labels=labels)
        text = "How long it took to reach a member: to connect, and to get its answer to the protocol header."
        seconds = SummaryMetricFamily("amqproxy_upstream_member_connect_seconds", text, labels=labels)
        text = "TLS handshakes with a member that were completed, of clients and of active checks."
        handshakes = CounterMetricFamily("amqproxy_upstream_member_tls_handshakes", text, labels=labels)
        text = "Connections to a member that failed, by why."
        failures = CounterMetricFamily("amqproxy_upstream_member_failures", text, labels=[*labels, "reason"])
        text = "How often a member was left out, since connections to it had failed."
        ejections = CounterMetricFamily("amqproxy_upstream_member_ejections", text, labels=labels)
        text = "How often a member went down, since its active checks failed."
        downs = CounterMetricFamily("amqproxy_upstream_member_downs", text, labels=labels)
        text = "Clients that were taken to another member after this one had failed."
        retries = CounterMetricFamily("amqproxy_upstream_member_retries", text, labels=labels)
        text = "Whether more members of an upstream fail than may be left out: 1, or 0."
        panic = GaugeMetricFamily("amqproxy_upstream_panic", text, labels=["upstream"])
        text = "Clients that wait for their turn to log in."
        waiting = GaugeMetricFamily("amqproxy_upstream_login_queue", text, labels=["upstream"])
        text = "How long clients waited for their turn to log in."
        waits = SummaryMetricFamily("amqproxy_upstream_login_wait_seconds", text, labels=["upstream"])
        text = "Clients that were refused, since too many waited to log in."
        refused = CounterMetricFamily("amqproxy_upstream_logins_refused", text, labels=["upstream"])
        for group in self._groups():
            panic.add_metric([group.name], int(group.is_in_panic))
            queue = group.logins
            waiting.add_metric([group.name], 0 if queue is None else len(queue))
            count, seconds_waited = (0, 0.0) if queue is None else (queue.admitted, queue.seconds)
            waits.add_metric([group.name], count_value=count, sum_value=seconds_waited)
            refused.add_metric([group.name], 0 if queue is None else queue.refused)
            for found, standing in group.states():
                member: CountedMember = found
                values = [group.name, member.address]
                for state in MEMBER_STATES:
                    states.add_metric([*values, state], int(state == standing))
                connections.add_metric(values, member.connections)
                seconds.add_metric(values, count_value=member.picks, sum_value=member.connect_seconds)
                handshakes.add_metric(values, member.tls_handshakes)
                for reason, count in member.failures_by_kind.items():
                    failures.add_metric([*values, reason], count)
                ejections.add_metric(values, member.ejections)
                downs.add_metric(values, member.downs)
                retries.add_metric(values, member.retries)
        yield from (states, connections, seconds, handshakes, failures, ejections, downs, retries)
        yield from (panic, waiting, waits, refused)


class SwitchCollector(Collector):
    """Exports the switches between upstreams."""

    def __init__(self, counts: Callable[[], Iterable[SwitchCounts]]) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        text = "The phase of a switch between upstreams: 1 for the one that it is in, else 0."
        phases = GaugeMetricFamily("amqproxy_switch_phase", text, labels=["switch", "phase"])
        text = "Clients that have yet to move to the upstream that a switch leads them to."
        clients = GaugeMetricFamily("amqproxy_switch_clients", text, labels=["switch"])
        text = "Clients that a switch told to reconnect."
        told = CounterMetricFamily("amqproxy_switch_clients_told", text, labels=["switch"])
        text = "Messages that a switch moved."
        moved = CounterMetricFamily("amqproxy_switch_messages_moved", text, labels=["switch"])
        text = "Messages that the latest move of a switch has left."
        left = GaugeMetricFamily("amqproxy_switch_messages_left", text, labels=["switch"])
        text = "Whether the move of a switch waits for something: 1, or 0."
        waits = GaugeMetricFamily("amqproxy_switch_waits", text, labels=["switch"])
        for each in self._counts():
            for phase in SWITCH_PHASES:
                phases.add_metric([each.name, phase], int(phase == each.phase))
            clients.add_metric([each.name], each.clients)
            told.add_metric([each.name], each.told)
            moved.add_metric([each.name], each.moved)
            left.add_metric([each.name], each.left)
            waits.add_metric([each.name], int(each.waits))
        yield from (phases, clients, told, moved, left, waits)


class CertificateCollector(Collector):
    """Exports when certificates expire."""

    def __init__(self, expiries: Callable[[], Mapping[str, float]]) -> None:
        self._expiries = expiries

    def collect(self) -> Iterator[Metric]:
        text = "When the certificate in a file expires, in seconds since 1970."
        found = GaugeMetricFamily("amqproxy_certificate_expires_seconds", text, labels=["file"])
        for file, end in self._expiries().items():
            found.add_metric([file], end)
        yield found
