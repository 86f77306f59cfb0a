"""Delays of refused logins."""

from __future__ import annotations

import pytest

from amqproxy.proxy.logins import failure_delays
from amqproxy.proxy.logins.failure_delays import MEMORY, FailureDelays


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_delay_doubles_for_each_address_and_user() -> None:
    delays = FailureDelays(1.0, Clock())
    assert [delays.fail("a", "orders") for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert delays.fail("a", "others") == delays.fail("b", "orders") == 1
    delays.forget("a", "orders")
    assert delays.fail("a", "orders") == 1


@pytest.mark.parametrize(("first", "delays"), [(0.0, [0, 0]), (40.0, [40, 40]), (20.0, [20, 30])])
def test_the_first_delay_is_a_choice(first: float, delays: list[float]) -> None:
    found = FailureDelays(first, Clock())
    assert [found.fail("a", "orders") for _ in delays] == delays


def test_failures_are_forgotten_after_a_while() -> None:
    clock = Clock()
    delays = FailureDelays(1.0, clock)
    delays.fail("a", "orders")
    clock.now = MEMORY
    assert delays.fail("a", "orders") == 2
    clock.now += MEMORY + 1
    assert delays.fail("a", "orders") == 1


def test_the_table_is_bounded_in_entries_and_in_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_delays, "MAX_ENTRIES", 10)
    delays = FailureDelays(1.0, Clock())
    for number in range(100):
        delays.fail("a", "x" * 100_000 + str(number))
    assert len(delays) == 10
    assert max(len(name) for _, name in delays._failures) == 16
    assert delays.fail("a", "x" * 100_000 + "99") == 2
