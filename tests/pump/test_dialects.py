"""The protocols of pumps, each with classes of its own."""

from __future__ import annotations

from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.proxy.dialects import KEPT
from amqproxy.pump.dialects import pump_dialects
from amqproxy.pump.idle_connection import IdleConnection
from amqproxy.pump.pumped_connection import PumpedConnection
from amqproxy.taps.metrics import Metrics


def test_each_protocol_has_classes_and_tallies_of_its_own() -> None:
    metrics = Metrics()
    dialects = pump_dialects(metrics, KEPT)
    for kinds, kind in (
        ([each.pumped for each in dialects], PumpedConnection),
        ([each.idle for each in dialects], IdleConnection),
    ):
        assert len(set(kinds)) == len(dialects)
        assert all(issubclass(each, kind) for each in kinds)
    assert [each.tallies for each in dialects] == [
        (tallies[CLIENT], tallies[SERVER]) for tallies in metrics.tallies.values()
    ]
