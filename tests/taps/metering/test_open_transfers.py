"""Open transfers as runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.taps.metering import open_transfers
from amqproxy.taps.metering.open_transfers import OpenTransfers


def test_some_of_a_run() -> None:
    transfers = OpenTransfers()
    assert [transfers.add(each, 1.0) for each in range(5)] == [0] * 5
    transfers.add(5, 2.0)
    assert transfers.settle(1, 2) == [(2, 1.0)]
    assert transfers.settle(2, 9) == [(2, 1.0), (1, 2.0)]
    assert transfers.count == 1
    assert transfers.settle(0, 0) == [(1, 1.0)]
    assert transfers.settle(0, 1 << 40) == []
    assert transfers.count == 0


def test_what_is_not_behind_all_others_is_not_opened() -> None:
    transfers = OpenTransfers()
    for number, time in ((100, 1.0), (101, 2.0)):
        transfers.add(number, time)
    assert transfers.add(5, 3.0) == 1
    assert transfers.add(101, 3.0) == 1
    assert transfers.count == 2
    assert transfers.settle(100, 101) == [(1, 1.0), (1, 2.0)]
    assert transfers.count == 0
    assert transfers.add(5, 4.0) == 0


def test_beyond_the_bound_the_oldest_have_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_transfers, "MAX_RUNS", 2)
    transfers = OpenTransfers()
    for each in range(4):
        assert transfers.add(each, float(each)) == 0
    assert transfers.settle(0, 9) == [(3, None), (1, 3.0)]


def test_behind_a_hole_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_transfers, "MAX_RUNS", 2)
    transfers = OpenTransfers()
    for each in range(5):
        transfers.add(each, 0.0)
    transfers.settle(1, 1)
    transfers.settle(3, 3)
    assert transfers.forget_excess() == 1
    assert (transfers.count, transfers.settle(0, 9)) == (2, [(1, 0.0), (1, 0.0)])


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60))))
def test_each_is_settled_once(ranges: list[tuple[int, int]]) -> None:
    transfers, left = OpenTransfers(), set(range(50))
    for each in range(50):
        transfers.add(each, each // 7)
    for first, last in ranges:
        wanted = {each for each in left if first <= each <= last}
        assert sum(count for count, _ in transfers.settle(first, last)) == len(wanted)
        left -= wanted
        assert transfers.count == len(left)
