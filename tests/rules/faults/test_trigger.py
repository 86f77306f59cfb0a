"""When a fault happens: tables of occasions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.rules.faults.trigger import Trigger


def happened(times: list[float], chances: list[float] | None = None, **when: Any) -> list[float]:
    """The times of those occasions on which it did."""
    occasions = Trigger()
    drawn = iter(chances or [])
    return [now for now in times if occasions.is_due(now, lambda: next(drawn), **when)]


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"count": 2}, [0, 1]),
        ({"nth": 3}, [2, 3, 4, 5]),
        ({"nth": 3, "count": 1}, [2]),
        ({"nth": 9}, []),
        ({"nth": 2, "every": 2}, [1, 3, 5]),
        ({"nth": 1, "every": 3}, [0, 3]),
        ({"nth": 2, "every": 2, "count": 2}, [1, 3]),
        ({"duration": 2.5}, [0, 1, 2]),
        ({"duration": 2}, [0, 1]),
        ({"duration": 3, "nth": 2, "count": 5}, [1, 2]),
    ],
)
def test_when(when: dict[str, Any], expected: list[float]) -> None:
    assert happened([0, 1, 2, 3, 4, 5], **when) == expected


def test_time_is_counted_from_the_first_occasion() -> None:
    assert happened([10, 11, 12], duration=2) == [10, 11]


def test_chance_is_drawn_only_where_it_decides() -> None:
    assert happened([0, 1, 2, 3], [0.3, 0.29], probability=0.3, nth=2, count=1) == [2]


@given(chances=st.lists(st.floats(0, 1, exclude_max=True)), probability=st.floats(0.01, 0.99))
def test_probability(chances: list[float], probability: float) -> None:
    times = [float(number) for number in range(len(chances))]
    expected = [time for time, chance in zip(times, chances, strict=True) if chance < probability]
    assert happened(times, chances, probability=probability) == expected
