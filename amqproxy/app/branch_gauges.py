"""Gauges of distributed transactions in the integrated broker, for /metrics."""

from __future__ import annotations

from amqproxy.broker.broker import Broker
from amqproxy.taps.metrics import Metrics


def count_branches(broker: Broker, metrics: Metrics) -> None:
    """Add gauges of transaction branches to `metrics`, read at each scrape: prepared ones, and all others."""

    def count(is_prepared: bool) -> int:
        vhosts = list(broker.vhosts.values())  # in one step each: this is another thread
        return sum(each.is_prepared is is_prepared for vhost in vhosts for each in list(vhost.branches.values()))

    metrics.dtx_branches.labels("open").set_function(lambda: count(False))
    metrics.dtx_branches.labels("prepared").set_function(lambda: count(True))
