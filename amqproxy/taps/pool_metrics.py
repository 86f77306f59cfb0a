"""Metrics of the upstream connections that clients share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class PoolCounters(Protocol):
    """Counts of the pools of an upstream group since the start."""

    clients: int
    opened: int
    exhausted: int
    collateral: int
    revoked: int
    pins: Counter[str]


class CountedPools(Protocol):
    """The pools of an upstream group, as metrics export them."""

    counts: PoolCounters

    def sizes(self) -> tuple[int, int]:
        """Return the numbers of shared connections, and of clients that wait for a place."""


class PooledGroup(Protocol):
    """An upstream group that may have pools."""

    name: str
    pools: CountedPools | None


class PoolCollector(Collector):
    """Collects the metrics of all groups that have pools."""

    def __init__(self, groups: Callable[[], Iterable[PooledGroup]]) -> None:
        self._groups = groups

    def collect(self) -> Iterator[Metric]:
        labels = ["upstream"]
        text = "Clients that share upstream connections."
        clients = GaugeMetricFamily("amqproxy_pool_clients", text, labels=labels)
        connections = GaugeMetricFamily(
            "amqproxy_pool_connections", "Upstream connections that clients share.", labels=labels
        )
        waiting = GaugeMetricFamily("amqproxy_pool_waiting", "Clients that wait for a place in a pool.", labels=labels)
        text = "Upstream connections that were opened to be shared."
        opened = CounterMetricFamily("amqproxy_pool_connections_opened", text, labels=labels)
        text = "Clients that got an upstream connection of their own, by why."
        pins = CounterMetricFamily("amqproxy_pool_pins", text, labels=[*labels, "reason"])
        text = "Clients that were told 530, since no place was free in time."
        exhausted = CounterMetricFamily("amqproxy_pool_exhausted", text, labels=labels)
        text = "Clients that lost their connection by an error of another client of the same upstream connection."
        collateral = CounterMetricFamily("amqproxy_pool_collateral_closes", text, labels=labels)
        text = "Pools that ended, since the broker no longer accepted their login or virtual host."
        revoked = CounterMetricFamily("amqproxy_pool_revoked", text, labels=labels)
        for group in self._groups():
            if group.pools is None:
                continue
            counts, (shared, queued) = group.pools.counts, group.pools.sizes()
            clients.add_metric([group.name], counts.clients)
            connections.add_metric([group.name], shared)
            waiting.add_metric([group.name], queued)
            opened.add_metric([group.name], counts.opened)
            exhausted.add_metric([group.name], counts.exhausted)
            collateral.add_metric([group.name], counts.collateral)
            revoked.add_metric([group.name], counts.revoked)
            for reason, count in counts.pins.copy().items():
                pins.add_metric([group.name, reason], count)
        yield from (clients, connections, waiting, opened, pins, exhausted, collateral, revoked)
