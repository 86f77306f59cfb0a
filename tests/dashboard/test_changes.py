"""Changes of traffic in the last hour."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from pathlib import Path

import pytest

from amqproxy.dashboard.capture_source import CaptureSource
from amqproxy.dashboard.changes import Changes, changes
from amqproxy.dashboard.minutes import MINUTE_NS, Minutes, Name
from tests.dashboard.two_hours import MINUTES, START_NS, write_two_hours

pytestmark = pytest.mark.once

SHOP, WORKER = Name("client", "shop", "guest"), Name("client", "worker", "guest")
ORDERS, JOBS = Name("exchange", "orders", "/"), Name("queue", "jobs", "/")
NOBODY = frozenset[Name]()


def minutes_of(passed: dict[int, dict[Name, int]]) -> Minutes:
    minutes = Minutes()
    for minute, names in passed.items():
        for name, count in names.items():
            for _ in range(count):
                minutes.count([name], minute * MINUTE_NS)
    return minutes


def compared(
    minutes: Minutes, minute: int, *, is_open: frozenset[Name] = NOBODY, joined: frozenset[Name] = NOBODY
) -> Changes:
    return changes(minutes, minute * MINUTE_NS + MINUTE_NS // 2, 60, is_open, joined)


def names(found: Changes, what: str) -> list[str]:
    return [each.name for each in getattr(found, what)]


def test_two_hours_that_were_recorded(tmp_path: Path) -> None:
    write_two_hours(tmp_path / "two-hours.pcapng")
    source = CaptureSource(1, tmp_path / "two-hours.pcapng", 1 << 26, lambda: None)
    asyncio.run(source.run())
    observed = source.observed
    found = changes(observed.minutes, source.ring.newest_ns, 60, observed.clients(), observed.clients(is_joined=True))
    assert found.then_ns == (START_NS + (MINUTES - 65) * MINUTE_NS, START_NS + (MINUTES - 60) * MINUTE_NS)
    assert (found.is_asked, found.is_whole) == (True, True)
    assert sorted(names(found, "appeared")) == ["fresh", "newcomer"]
    assert {each.name: each.at_ns for each in found.gone} == {
        "legacy": START_NS + 70 * MINUTE_NS,
        "old": START_NS + 69 * MINUTE_NS,
    }
    figures = {each.name: each for each in found.figures}
    assert (figures["connections"].then, figures["connections"].now) == (3, 3)
    assert figures["published"].then == pytest.approx(0.1 + 1 / 30, rel=0.05)
    assert figures["published"].now == pytest.approx(0.5, rel=0.2)
    assert 0.02 <= (figures["transit_p99"].then or 0) <= 0.0225
    assert 0.2 <= (figures["transit_p99"].now or 0) <= 0.225
    assert {"orders", "shop", "jobs", "worker"} == set(names(found, "rates"))
    assert all(4 < each.now / each.then < 6 for each in found.rates)
    assert "channel-error" in found.findings


def test_there_is_nothing_to_compare_with_at_first() -> None:
    assert compared(Minutes(), 10).then_ns is None
    assert compared(minutes_of({10: {SHOP: 1}}), 10).then_ns is None


def test_without_an_hour_the_first_minutes_are_compared() -> None:
    found = compared(minutes_of({10: {SHOP: 100, ORDERS: 100}, 11: {SHOP: 100}, 12: {SHOP: 400, JOBS: 1}}), 12)
    assert (found.is_asked, found.then_ns) == (False, (10 * MINUTE_NS, 12 * MINUTE_NS))
    assert names(found, "appeared") == ["jobs"]
    assert names(found, "gone") == ["orders"]
    assert names(found, "rates") == ["shop"]


def test_a_client_that_was_connected_before_it_was_seen_is_not_new() -> None:
    minutes = minutes_of({10: {ORDERS: 1}, 80: {SHOP: 1, WORKER: 1}})
    assert names(compared(minutes, 80, is_open=frozenset((SHOP, WORKER)), joined=frozenset((SHOP,))), "appeared") == [
        "worker"
    ]


def test_an_idle_client_is_not_gone_while_it_is_connected() -> None:
    minutes = minutes_of({10: {SHOP: 1}, 80: {ORDERS: 1}})
    minutes.see(SHOP, 19 * MINUTE_NS)
    assert names(compared(minutes, 80, is_open=frozenset((SHOP,))), "gone") == []
    assert names(compared(minutes, 80), "gone") == ["shop"]


def test_what_was_not_seen_is_not_gone_and_has_no_rate() -> None:
    minutes = minutes_of({16: {ORDERS: 100, JOBS: 100}, 80: {JOBS: 1000}})
    assert (names(compared(minutes, 80), "gone"), names(compared(minutes, 80), "rates")) == (["orders"], ["jobs"])
    minutes.at(79 * MINUTE_NS).is_whole = False
    found = compared(minutes, 80)
    assert (found.is_whole, names(found, "gone"), names(found, "rates")) == (False, [], [])


def test_minutes_and_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amqproxy.dashboard.minutes.MAX_MINUTES", 10)
    monkeypatch.setattr("amqproxy.dashboard.minutes.MAX_NAMES", 5)
    minutes = Minutes()
    for minute in range(100):
        minutes.count([Name("queue", str(each), "/") for each in range(20)], minute * MINUTE_NS)
    minutes.count([SHOP], 0)  # too old
    assert [place for place, _ in minutes.between(0, 1000)] == list(range(90, 100))
    assert len(minutes.at(99 * MINUTE_NS).names) == 5


@pytest.mark.parametrize(("seen", "counted"), [(20_000, 20), (20, 1_000)])
def test_of_too_many_names_none_is_new_or_gone(monkeypatch: pytest.MonkeyPatch, seen: int, counted: int) -> None:
    monkeypatch.setattr("amqproxy.dashboard.minutes.MAX_SEEN", seen)
    monkeypatch.setattr("amqproxy.dashboard.minutes.MAX_NAMES", counted)
    minutes, queues = Minutes(), [Name("queue", str(each), "/") for each in range(30)]
    for minute in (16, 17, 79, 80):
        for name in random.Random(minute).sample(queues, 30):
            minutes.count([name], minute * MINUTE_NS)
    found = compared(minutes, 80)
    assert (found.has_all_names, names(found, "appeared"), names(found, "gone"), names(found, "rates")) == (
        *(False, []),
        *([], []),
    )


def test_clients_of_an_hour_take_little_memory() -> None:
    minutes = Minutes()
    tracemalloc.start()
    for minute in range(60):
        for number in range(2_000):
            minutes.see(Name("client", f"client {number}", "guest"), minute * MINUTE_NS)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 2_000 * 1_000
