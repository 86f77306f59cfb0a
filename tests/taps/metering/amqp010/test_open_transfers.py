"""Open transfers as runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.taps.metering.amqp010 import open_transfers
from amqproxy.taps.metering.amqp010.open_transfers import MAX_RUNS, OpenTransfers
from amqproxy.taps.metering.distribution import Distribution
from amqproxy.taps.metering.message_counts import SECONDS
from amqproxy.taps.trace.budget import Budget
from amqproxy.taps.trace.open_tags import Span


class Opened:
    """Transfers that are open, and the seconds that those were open that are settled at 10."""

    def __init__(self, room: Budget | None = None) -> None:
        self.transfers = OpenTransfers(Budget(1000) if room is None else room)

    def settle(self, first: int, last: int) -> tuple[int, float]:
        seconds = Distribution((1.0,))
        untimed = self.transfers.untimed
        settled = self.transfers.settle(first, last, 10.0, seconds)
        assert sum(seconds.counts) == settled - (self.transfers.untimed - untimed)
        return settled, seconds.total


def test_some_of_a_run() -> None:
    opened = Opened()
    opened.transfers.add(0, 1.0, 4)
    opened.transfers.add(4, 1.0)
    opened.transfers.add(5, 2.0)
    assert opened.settle(1, 2) == (2, 2 * 9.0)
    assert opened.settle(2, 9) == (3, 2 * 9.0 + 8.0)
    assert opened.transfers.count == 1
    assert opened.settle(1, 0) == (0, 0.0)
    assert opened.settle(0, 0) == (1, 9.0)
    assert opened.settle(0, 1 << 40) == (0, 0.0)
    assert opened.transfers.count == 0


def test_a_clock_that_is_behind() -> None:
    opened = Opened()
    opened.transfers.add(0, 11.0)
    assert opened.settle(0, 0) == (1, 0.0)


def test_what_is_not_behind_all_others_is_not_opened() -> None:
    opened = Opened()
    transfers = opened.transfers
    for number, time in ((100, 1.0), (101, 2.0)):
        transfers.add(number, time)
    transfers.add(5, 3.0)
    transfers.add(101, 3.0)
    assert transfers.count == 2
    transfers.add(100, 2.0, 4)
    assert transfers.count == 4, "those behind are"
    assert opened.settle(100, 101) == (2, 9.0 + 8.0)
    assert opened.settle(102, 103) == (2, 2 * 8.0)
    transfers.add(5, 4.0)
    assert transfers.count == 1


def test_beyond_the_bound_the_oldest_have_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_transfers, "MAX_RUNS", 2)
    opened = Opened()
    for each in range(4):
        opened.transfers.add(each, float(each))
    assert opened.settle(0, 9) == (4, 7.0)
    assert opened.transfers.untimed == 3


def test_behind_a_hole_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_transfers, "MAX_RUNS", 2)
    opened = Opened()
    opened.transfers.add(0, 0.0, 5)
    opened.settle(1, 1)
    opened.settle(3, 3)
    assert opened.transfers.count == 2
    assert opened.settle(0, 9) == (2, 20.0)


def test_all_directions_of_a_connection_share_its_room() -> None:
    room = Budget(3)
    one, other, third = Opened(room), Opened(room), Opened(room)
    for each in range(3):
        one.transfers.add(10 * each, 1.0)
    other.transfers.add(0, 1.0)
    assert room.left == -1, "the last of each is kept"
    one.transfers.add(90, 2.0)
    assert (one.transfers.count, room.left) == (2, 0)
    assert one.settle(90, 90) == (1, 8.0)
    third.transfers.add(0, 1.0)
    one.transfers.clear()
    assert (one.transfers.count, room.left) == (0, 1)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60))))
def test_each_is_settled_once(ranges: list[tuple[int, int]]) -> None:
    room = Budget(1000)
    opened, left = Opened(room), set(range(50))
    for each in range(50):
        opened.transfers.add(each, each // 7)
    for first, last in ranges:
        wanted = {each for each in left if first <= each <= last}
        assert opened.settle(first, last)[0] == len(wanted)
        left -= wanted
        assert opened.transfers.count == len(left)
    opened.transfers.clear()
    assert room.left == 1000


def test_spans_are_the_newest_runs_with_their_times() -> None:
    transfers, seconds = OpenTransfers(Budget(100)), Distribution(SECONDS)
    transfers.add(0, 1.0, 3)
    transfers.add(3, 2.0)
    transfers.settle(1, 1, 3.0, seconds)
    assert transfers.spans(9, 7, "tag") == (
        Span(0, 0, 1_000_000_007, "tag"),
        Span(2, 2, 1_000_000_007, "tag"),
        Span(3, 3, 2_000_000_007, "tag"),
    )
    assert transfers.spans(1, 0, None) == (Span(3, 3, 2_000_000_000),)
    assert not transfers.has_forgotten


def test_runs_whose_time_is_unknown_are_no_spans() -> None:
    transfers = OpenTransfers(Budget(100_000))
    for position in range(MAX_RUNS + 1):
        transfers.add(position, float(position))
    assert transfers.spans(1, 0, None)[0].last == MAX_RUNS
    assert len(transfers.spans(2 * MAX_RUNS, 0, None)) == MAX_RUNS - 1
    assert not transfers.has_forgotten
    for position in range(2 * MAX_RUNS, 4 * MAX_RUNS, 2):
        transfers.add(position, float(position))
    assert transfers.has_forgotten
