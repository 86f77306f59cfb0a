"""What is counted of the whole process."""

import os

from amqproxy import __version__
from amqproxy.control.statistics import Statistics
from amqproxy.taps.metrics import Metrics


def test_the_process() -> None:
    statistics = Statistics(Metrics().registry, lambda: (0.001, 0.5), started=1000.0, time=lambda: 1060.0)
    assert statistics.process() == {
        "version": __version__,
        "protocol": 1,
        "pid": os.getpid(),
        "started_at": 1000.0,
        "time": 1060.0,
        "uptime": 60.0,
        "lag": {"now": 0.001, "most": 0.5},
    }


def test_every_metric_is_there_but_for_the_times_at_which_they_were_made() -> None:
    metrics = Metrics()
    metrics.records_dropped.labels("tail").inc(3)
    metrics.connect_seconds.observe(0.002)
    statistics = Statistics(metrics.registry, lambda: (0.0, 0.0), started=0.0, time=lambda: 0.0)
    samples = list(statistics.samples())
    dropped = {"name": "amqproxy_records_dropped_total", "type": "counter", "labels": {"tap": "tail"}, "value": 3.0}
    assert dropped in samples
    buckets = [each for each in samples if each["name"] == "amqproxy_upstream_connect_seconds_bucket"]
    assert {each["type"] for each in buckets} == {"histogram"}
    assert buckets[-1]["labels"] == {"le": "+Inf"}
    assert buckets[-1]["value"] == 1
    assert not [each for each in samples if each["name"].endswith("_created")]
