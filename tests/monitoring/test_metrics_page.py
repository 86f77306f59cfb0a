"""docs/metrics.md has every metric that there is, and no other."""

from amqproxy.taps.metrics import Metrics
from tests.monitoring.coming import COMING
from tests.monitoring.metrics_page import entries

ENTRIES = entries()


def registered() -> set[tuple[str, str]]:
    """Names and types of all metrics, as Prometheus sees them."""
    metrics = Metrics()
    metrics.count_rules(dict)
    metrics.count_log(lambda: 0)
    found = set()
    for family in metrics.registry.collect():
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        found.add((family.name + suffix, "gauge" if family.type == "info" else family.type))
    return found


def test_each_metric_is_described() -> None:
    described = {(entry.name, entry.type) for entry in ENTRIES}
    assert len(described) == len(ENTRIES)
    assert registered() <= described
    assert {name for name, _ in described - registered()} <= COMING


def test_a_unit_is_in_the_name() -> None:
    for entry in ENTRIES:
        assert ("_seconds" in entry.name) == entry.unit.startswith("seconds")
        assert ("_bytes" in entry.name) == (entry.unit == "bytes")
