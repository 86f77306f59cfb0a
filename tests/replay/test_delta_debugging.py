"""Of many units, those without which a property is lost."""

from __future__ import annotations

from collections.abc import Sequence

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.replay.delta_debugging import OutOfTime, least_part
from tests.example_count import example_count


@settings(max_examples=example_count(50))
@given(st.integers(1, 60), st.data())
def test_exactly_what_is_needed_is_left(count: int, data: st.DataObject) -> None:
    needed = data.draw(st.sets(st.integers(0, count - 1)))

    async def has_property(part: Sequence[int]) -> bool:
        return needed <= set(part)

    assert trio.run(least_part, range(count), has_property) == sorted(needed)


@settings(max_examples=example_count(20))
@given(st.integers(2, 60), st.integers(0, 30))
def test_without_time_something_that_has_it_is_left(count: int, tests: int) -> None:
    left = tests

    async def has_property(part: Sequence[int]) -> bool:
        nonlocal left
        left -= 1
        if left < 0:
            raise OutOfTime
        return count - 1 in part

    found = trio.run(least_part, range(count), has_property)
    assert count - 1 in found
