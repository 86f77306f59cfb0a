"""Counters whose labels come from outside."""

from prometheus_client import CollectorRegistry, Counter, generate_latest

from amqproxy.taps.bounded_series import BoundedSeries


def test_what_is_beyond_the_bound_is_counted_as_other() -> None:
    registry = CollectorRegistry()
    beyond = Counter("beyond", "Beyond.", registry=registry)
    series = BoundedSeries("by", "By.", ["event"], ["queue"], most=2, beyond=beyond, registry=registry)
    for queue in ("a", "b", "c", "d", "a"):
        series.count(("acked",), (queue,), 2)
    series.count(("delivered",), ("a",))
    series.count(("acked",), ("other",))
    found = {
        (sample.labels["event"], sample.labels["queue"]): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "by_total"
    }
    assert found == {("acked", "a"): 4, ("acked", "b"): 2, ("acked", "other"): 5, ("delivered", "a"): 1}
    assert registry.get_sample_value("beyond_total") == 4


def test_a_name_that_is_no_utf8_fails_no_scrape() -> None:
    registry = CollectorRegistry()
    beyond = Counter("beyond", "Beyond.", registry=registry)
    series = BoundedSeries("by", "By.", ["event"], ["queue"], most=2, beyond=beyond, registry=registry)
    for name in (b"a\xff", b"a\xfe"):
        series.count(("acked",), (name.decode("utf-8", "surrogateescape"),))
    assert 'by_total{event="acked",queue="a\N{REPLACEMENT CHARACTER}"} 2.0' in generate_latest(registry).decode()
