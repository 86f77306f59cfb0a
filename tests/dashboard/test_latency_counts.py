"""Percentiles of latencies, at useful resolution."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.dashboard.latency_counts import LAST, LatencyCounts

pytestmark = pytest.mark.once


def test_without_latencies_there_is_no_percentile() -> None:
    assert LatencyCounts().percentile(0.5) is None


@given(st.lists(st.floats(1e-6, 9_000), min_size=1, max_size=100), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_percentile_is_at_most_an_eighth_too_high(latencies: list[float], share: float) -> None:
    counts, other = LatencyCounts(), LatencyCounts()
    for place, each in enumerate(latencies):
        (counts if place % 2 else other).add(each)
    counts.absorb(other)
    found = counts.percentile(share)
    exact = next(each for place, each in enumerate(sorted(latencies), 1) if place >= share * len(latencies))
    assert found is not None
    assert exact * (1 - 1e-9) <= found <= exact * 1.125


def test_what_is_beyond_the_buckets_is_in_the_first_or_the_last() -> None:
    counts = LatencyCounts()
    for each in (-1.0, 0.0, 1e9):
        counts.add(each)
    assert counts.counts == {0: 2, LAST: 1}
