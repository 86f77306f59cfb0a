"""Latencies by their bounds, since they were asked for last."""

from __future__ import annotations

import pytest

from amqproxy.pump.latency_counts import LatencyCounts
from amqproxy.pump.pumps import are_available
from tests.pump.rig import PUBLISH, Wire, pump
from tests.transcripts.words import octets

pytestmark = pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")


def test_nothing_was_observed() -> None:
    for bounds in ((), (0.1,), (0.001, 0.01, 1.0)):
        assert LatencyCounts(bounds).collect() == ([0] * (len(bounds) + 1), 0.0)


def test_each_read_is_observed_once(wire: Wire) -> None:
    wire.hand_over()
    for _ in range(3):
        wire.client.send(octets(PUBLISH))
        wire.settle()
    wire.client.send(octets(PUBLISH)[:5])  # of which nothing is passed on
    wire.settle()
    counts, total = wire.pump.collect()
    assert sum(counts) == 3
    assert 0 < total < 60
    assert wire.pump.collect() == ([0] * len(counts), 0.0)


@pytest.mark.parametrize(("bounds", "expected"), [((), [1]), ((60.0,), [1, 0]), ((0.0, 60.0), [0, 1, 0])])
def test_by_the_first_bound_that_is_not_below(bounds: tuple[float, ...], expected: list[int]) -> None:
    wire = Wire(pump(bounds))
    wire.hand_over()
    wire.client.send(octets(PUBLISH))
    wire.settle()
    assert wire.pump.collect()[0] == expected
    wire.close()
