"""Amounts over time, at a resolution that fits."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.views.timeline import MAX_INTERVALS, SHORTEST_NS, Timeline
from tests.example_count import example_count


@settings(max_examples=example_count(100), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**13) | st.integers(0, 10**20), st.integers(0, 1))))
def test_nothing_is_lost_and_intervals_are_few(added: list[tuple[int, int]]) -> None:
    timeline = Timeline(2)
    for ts_ns, series in added:
        timeline.add(ts_ns, series, 3)
    start_ns, amounts = timeline.amounts()
    interval_ns = timeline.interval_ns
    expected = [[0] * len(amounts[0]) for _ in range(2)]
    for ts_ns, series in added:
        expected[series][(ts_ns - start_ns) // interval_ns] += 3
    assert amounts == expected
    assert len(amounts[0]) <= MAX_INTERVALS
    assert str(interval_ns // SHORTEST_NS).strip("0") in ("1", "2")
