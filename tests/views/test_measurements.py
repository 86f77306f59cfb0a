"""Percentiles and intervals, against sorting all values."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.views.measurements import BYTES, PRECISION, SECONDS, Measurements
from tests.example_count import example_count


@settings(max_examples=example_count(100), deadline=None)
@given(st.lists(st.floats(1e-6, 9e4) | st.just(0.0), min_size=1), st.sampled_from([50, 90, 99, 99.9]))
def test_percentiles_are_near(values: list[float], percent: float) -> None:
    measurements = Measurements()
    for value in values:
        measurements.observe(value)
    rank = max(math.ceil(len(values) * percent / 100 - 1e-9), 1)
    true = sorted(values)[rank - 1]
    assert measurements.percentile(percent) == pytest.approx(true, rel=PRECISION, abs=1e-6)
    assert (measurements.least, measurements.most, measurements.count) == (min(values), max(values), len(values))
    assert measurements.mean == pytest.approx(sum(values) / len(values))


@pytest.mark.parametrize("is_bytes", [False, True])
def test_intervals_are_exact(is_bytes: bool) -> None:
    bounds = BYTES if is_bytes else SECONDS
    measurements = Measurements(is_bytes=is_bytes)
    for bound in bounds:
        measurements.observe(bound)
        measurements.observe(bound * 1.001, 2)
    measurements.observe(-1.0)
    counts = [4, 1, *(3 for _ in bounds[2:])]  # zero is 1.001 times zero
    expected = list(zip(bounds, counts, strict=True))
    assert measurements.intervals() == [*expected, (None, 2)]


def test_nothing_was_measured() -> None:
    measurements = Measurements()
    assert (measurements.percentile(50), measurements.mean, measurements.intervals()) == (0.0, 0.0, [])
