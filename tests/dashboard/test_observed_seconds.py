"""Seconds over which rates are computed, with and without losses."""

from __future__ import annotations

import pytest

from amqproxy.dashboard.observed_seconds import LATE, SECOND, SPAN, ObservedSeconds, RecentCounts

pytestmark = pytest.mark.once


def observed(*seconds: int) -> ObservedSeconds:
    found = ObservedSeconds()
    for each in seconds:
        found.take(each * SECOND)
    return found


def test_before_any_traffic_there_are_no_rates() -> None:
    found = ObservedSeconds()
    found.lose()
    assert found.window(5 * SECOND).seconds == ()


def test_the_window_is_the_last_minute_without_the_first_and_the_newest_seconds() -> None:
    found = observed(100)
    assert found.window(100 * SECOND).seconds == []
    assert found.window(105 * SECOND).seconds == list(range(101, 105 - LATE))
    assert found.window(1000 * SECOND).seconds == list(range(1000 - LATE - SPAN, 1000 - LATE))


def test_seconds_with_a_loss_are_left_out() -> None:
    found = observed(100, 103)
    found.lose()
    found.take(105 * SECOND)
    window = found.window(110 * SECOND)
    assert window.is_complete
    assert window.seconds == [101, 102, 106, 107, 108]


def test_what_is_lost_until_now_is_left_out_too() -> None:
    found = observed(100, 103)
    found.lose()
    assert found.window(200 * SECOND).seconds == [101, 102]


def test_with_a_loss_in_each_second_the_rates_are_incomplete() -> None:
    found = observed(100)
    for second in range(101, 120):
        found.lose()
        found.take(second * SECOND)
    window = found.window(120 * SECOND)
    assert not window.is_complete
    assert list(window.seconds) == list(range(101, 120 - LATE))


def test_recent_counts_forget_old_seconds() -> None:
    counts = RecentCounts()
    for second in (100, 100, 101, 101 + SPAN):
        counts.add(second * SECOND)
    assert (counts.at(100), counts.at(101), counts.at(101 + SPAN)) == (2, 1, 1)
    assert counts.total(range(100, 102)) == 3
    counts.add(5000 * SECOND)
    assert counts.at(101 + SPAN) == 0
    counts.add(100 * SECOND)  # out of order, and too old
    assert counts.total(range(4990, 5001)) == 1
