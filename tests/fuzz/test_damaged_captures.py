"""The first of the cases that `make tsan SANITIZER=address` goes on with."""

from __future__ import annotations

from random import Random

import pytest

from tests.fuzz.damaged_captures import cut, damaged, damaged_events, run


@pytest.mark.parametrize("seed", range(30))
def test_what_has_to_hold_for_a_damaged_capture(seed: int) -> None:
    run(seed)


def test_a_case_is_the_same_each_time() -> None:
    one, again = damaged_events(Random(1)), damaged_events(Random(1))
    assert len(one) > 3
    assert list(map(str, one[:1])) == list(map(str, again[:1]))
    assert len(one) == len(again)


def test_damage_changes_something_and_cuts_nothing() -> None:
    data = bytes(range(256)) * 4
    assert sum(damaged(data, Random(seed)) != data for seed in range(50)) > 45
    for seed in range(20):
        assert b"".join(cut(data, Random(seed))) == data
