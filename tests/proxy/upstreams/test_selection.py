"""The order in which members are tried: fair, stable, and complete."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.proxy.upstreams.member import Member
from amqproxy.proxy.upstreams.selection import SELECTIONS, consistent_hash, least_connections, round_robin


def members(*weights: int, slow_start: float = 0.0) -> list[Member]:
    return [Member(f"m{place}:1", weight=weight, slow_start=slow_start) for place, weight in enumerate(weights)]


def firsts(found: list[Member], count: int, now: float = 0.0) -> str:
    return "".join(round_robin(found, now, "")[0].address[1] for _ in range(count))


def test_round_robin_interleaves_by_weight() -> None:
    assert firsts(members(5, 1, 1), 14) == "00102000010200"
    assert firsts(members(1, 1, 1), 6) == "012012"


def test_a_member_in_its_slow_start_takes_fewer_clients() -> None:
    found = members(1, 1, slow_start=100.0)
    found[1].eject(0.0, 0.0)
    counted = Counter(firsts(found, 100, now=25.0))
    assert (counted["0"], counted["1"]) == (80, 20)


def test_the_fewest_connections_in_proportion_to_the_weight() -> None:
    found = members(1, 2, 4)
    for _ in range(70):
        least_connections(found, 0.0, "")[0].connections += 1
    assert [each.connections for each in found] == [10, 20, 40]


def test_equal_members_take_turns() -> None:
    found = members(1, 1, 1)
    assert {least_connections(found, 0.0, "")[0].address for _ in range(3)} == {"m0:1", "m1:1", "m2:1"}


@settings(max_examples=20)
@given(st.integers(2, 8), st.integers(0, 7))
def test_only_the_keys_of_a_member_that_leaves_move(count: int, leaving: int) -> None:
    found = members(*[1] * count)
    gone = found[leaving % count]
    rest = [each for each in found if each is not gone]
    for key in map(str, range(200)):
        before = consistent_hash(found, 0.0, key)
        after = consistent_hash(rest, 0.0, key)
        assert after == [each for each in before if each is not gone]


def test_keys_are_spread_by_weight() -> None:
    found = members(1, 3)
    counted = Counter(consistent_hash(found, 0.0, f"user{number}")[0].address for number in range(4000))
    assert 800 < counted["m0:1"] < 1200


def test_a_slow_start_moves_no_key() -> None:
    found = members(1, 1, 1, slow_start=100.0)
    before = [consistent_hash(found, 0.0, str(key))[0] for key in range(100)]
    found[0].eject(0.0, 0.0)
    assert [consistent_hash(found, 1.0, str(key))[0] for key in range(100)] == before


@pytest.mark.parametrize("name", sorted(SELECTIONS))
@given(st.lists(st.integers(1, 1000), max_size=8), st.text(max_size=20))
def test_every_member_is_tried_once(name: str, weights: list[int], key: str) -> None:
    found = members(*weights)
    for _ in range(3):
        assert sorted(each.address for each in SELECTIONS[name](found, 0.0, key)) == sorted(
            each.address for each in found
        )
