"""Metrics of distributed transactions and of shovels in the integrated broker."""

from __future__ import annotations

from functools import partial

from amqproxy.broker.broker import Broker
from amqproxy.shovels.shovel_states import ShovelStates
from amqproxy.taps.metrics import SHOVEL_STATES, Metrics


def count_branches(broker: Broker, metrics: Metrics) -> None:
    """Add gauges of transaction branches to `metrics`, read at each scrape: prepared ones, and all others."""

    def count(is_prepared: bool) -> int:
        vhosts = list(broker.vhosts.values())  # in one step each: this is another thread
        return sum(each.is_prepared is is_prepared for vhost in vhosts for each in list(vhost.branches.values()))

    metrics.dtx_branches.labels("open").set_function(lambda: count(False))
    metrics.dtx_branches.labels("prepared").set_function(lambda: count(True))


def count_shovels(shovels: ShovelStates, metrics: Metrics) -> None:
    """Add the shovels by state to `metrics`, read at each scrape, and count the messages that they move."""
    for state in SHOVEL_STATES:
        metrics.shovels.labels(state).set_function(partial(shovels.count, state))
    shovels.note_moved = metrics.shovel_messages.inc
