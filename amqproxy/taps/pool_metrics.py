"""Metrics of the upstream connections that clients share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

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


class PoolSizes(NamedTuple):
    """Sizes of the pools of an upstream group.

    These are the numbers of shared connections, of clients that wait for a place, and of bytes that wait for the broker
    after their clients have left.
    """

    connections: int
    waiting: int
    left_bytes: int


class CountedPools(Protocol):
    """The pools of an upstream group, as metrics export them."""

    counts: PoolCounters

    def sizes(self) -> PoolSizes:
        """Return the sizes of all pools together."""


class PooledGroup(Protocol):
    """An upstream group that may have pools."""

    name: str
    pools: CountedPools | None


class _PoolMetric(NamedTuple):
    """A metric of each group that has pools."""

    family: type[GaugeMetricFamily | CounterMetricFamily]
    name: str
    text: str
    value: Callable[[PoolCounters, PoolSizes], int]


_METRICS = (
    _PoolMetric(
        GaugeMetricFamily,
        "amqproxy_pool_clients",
        "Clients that share upstream connections.",
        lambda counts, sizes: counts.clients,
    ),
    _PoolMetric(
        GaugeMetricFamily,
        "amqproxy_pool_connections",
        "Upstream connections that clients share.",
        lambda counts, sizes: sizes.connections,
    ),
    _PoolMetric(
        GaugeMetricFamily,
        "amqproxy_pool_waiting",
        "Clients that wait for a place in a pool.",
        lambda counts, sizes: sizes.waiting,
    ),
    _PoolMetric(
        GaugeMetricFamily,
        "amqproxy_pool_left_bytes",
        "Bytes that wait for the broker after their clients have left, which keep their places.",
        lambda counts, sizes: sizes.left_bytes,
    ),
    _PoolMetric(
        CounterMetricFamily,
        "amqproxy_pool_connections_opened",
        "Upstream connections that were opened to be shared.",
        lambda counts, sizes: counts.opened,
    ),
    _PoolMetric(
        CounterMetricFamily,
        "amqproxy_pool_exhausted",
        "Clients that were told 530, since no place was free in time.",
        lambda counts, sizes: counts.exhausted,
    ),
    _PoolMetric(
        CounterMetricFamily,
        "amqproxy_pool_collateral_closes",
        "Clients that lost their connection by an error of another client of the same upstream connection.",
        lambda counts, sizes: counts.collateral,
    ),
    _PoolMetric(
        CounterMetricFamily,
        "amqproxy_pool_revoked",
        "Pools that ended, since the broker no longer accepted their login or virtual host.",
        lambda counts, sizes: counts.revoked,
    ),
)


class PoolCollector(Collector):
    """Collects the metrics of all groups that have pools."""

    def __init__(self, groups: Callable[[], Iterable[PooledGroup]]) -> None:
        self._groups = groups

    def collect(self) -> Iterator[Metric]:
        found = [(group.name, group.pools.counts, group.pools.sizes()) for group in self._groups() if group.pools]
        for each in _METRICS:
            family = each.family(each.name, each.text, labels=["upstream"])
            for name, counts, sizes in found:
                family.add_metric([name], each.value(counts, sizes))
            yield family
        text = "Clients that got an upstream connection of their own, by why."
        pins = CounterMetricFamily("amqproxy_pool_pins", text, labels=["upstream", "reason"])
        for name, counts, _ in found:
            for reason, count in counts.pins.copy().items():
                pins.add_metric([name, reason], count)
        yield pins
