"""Rates and latencies, from two samples."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.top.samples import Sample, Window, with_rates
from tests.top.fake_source import sample_response


def sample(time: float, started_at: float = 0.0, **values: Any) -> Sample:
    return Sample(sample_response(time, started_at=started_at, **values))


def test_totals_by_labels() -> None:
    frames = [({"sender": "client", "type": "method"}, 3.0), ({"sender": "server", "type": "method"}, 4.0)]
    found = sample(0.0, frames=frames)
    assert found.total("frames") == 7.0
    assert found.total("frames", sender="client") == 3.0
    assert found.total("frames", sender="nobody") == 0.0
    assert found.total("nothing") is None


def test_rates() -> None:
    window = Window(sample(10.0, count=5.0), sample(12.0, count=11.0, new=3.0))
    assert window.rate("count") == 3.0
    assert window.rate("new") is None
    assert Window(None, sample(12.0, count=11.0)).rate("count") is None


@pytest.mark.parametrize("before", [(10.0, 50.0), (12.0, 0.0)])
def test_no_rate_over_a_restart_or_no_time(before: tuple[float, float]) -> None:
    time, started_at = before
    assert Window(sample(time, started_at, count=5.0), sample(12.0, count=11.0)).rate("count") is None


def test_a_counter_that_fell_has_no_negative_rate() -> None:
    assert Window(sample(0.0, count=5.0), sample(1.0, count=3.0)).rate("count") == 0.0


def histogram(*counts: float) -> list[tuple[dict[str, str], float]]:
    return [({"le": bound}, count) for bound, count in zip(("0.001", "0.01", "+Inf"), counts, strict=True)]


def test_quantiles_of_what_is_new() -> None:
    before = sample(0.0, latency_bucket=histogram(100, 100, 100))
    window = Window(before, sample(1.0, latency_bucket=histogram(105, 110, 110)))
    assert window.quantile("latency", 0.25) == pytest.approx(0.0005)
    assert window.quantile("latency", 0.5) == pytest.approx(0.001)
    assert window.quantile("latency", 0.75) == pytest.approx(0.0055)
    assert Window(before, before).quantile("latency", 0.5) is None
    assert window.quantile("nothing", 0.5) is None


def test_quantiles_of_all_labels_and_above_the_last_bound() -> None:
    by_queue = [({**labels, "queue": queue}, count) for queue in "ab" for labels, count in histogram(1, 1, 2)]
    window = Window(None, sample(1.0, latency_bucket=by_queue))
    assert window.quantile("latency", 0.5) == pytest.approx(0.001)
    assert window.quantile("latency", 0.99) == 0.01


def test_rates_of_entries() -> None:
    before = [{"session": 1, "bytes": {"client": 10, "server": 0}}, {"session": 2, "bytes": {"client": 9, "server": 0}}]
    after = [
        {"session": 1, "bytes": {"client": 30, "server": 4}},
        {"session": 2, "bytes": {"client": 1, "server": 0}},
        {"session": 3, "bytes": {"client": 1, "server": 0}},
    ]
    found = with_rates(before, after, 2.0, key=lambda entry: entry["session"], counted="bytes")
    assert [entry["rates"] for entry in found] == [
        {"client": 10.0, "server": 2.0},
        {"client": None, "server": 0.0},
        {"client": None, "server": None},
    ]
