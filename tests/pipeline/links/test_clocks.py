"""Clock offsets from the smallest transit times between hosts whose clocks are known."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

import pytest

from amqproxy.pipeline.links.clocks import MAX_CHAINS, Clock, Evidence, clocks

pytestmark = pytest.mark.once

MS = 1_000_000
SECOND = 1000 * MS


def evidence(ahead: Mapping[str, int], least: Mapping[tuple[str, str], int]) -> Iterator[Evidence]:
    """Return the evidence of recorders whose clocks are `ahead`; `least` are the true smallest transit times."""
    for (published, delivered), transit_ns in least.items():
        yield Evidence(7, published, delivered, transit_ns + ahead[delivered] - ahead[published], 10)


def offsets(found: list[Clock]) -> dict[str, int]:
    return {each.chain: each.offset_ns for each in found}


def test_the_one_clock_that_contradicts_all_others_is_corrected() -> None:
    """There are fast messages in both directions."""
    ahead = dict.fromkeys("abcdefg", 0) | {"d": -2 * SECOND}
    least = {(one, other): 3 * MS for one in ahead for other in ahead if one != other}
    found = clocks(evidence(ahead, least))
    assert offsets(found) == ahead
    assert {each.pairs for each in found} == {120}


def test_clocks_that_no_message_contradicts_are_right() -> None:
    """Neither a slow queue nor fast messages in one direction tell otherwise."""
    ahead = {"a": 0, "b": MS, "c": 0}
    least = {("a", "b"): 3 * MS, ("b", "a"): 2 * MS, ("a", "c"): 3600 * SECOND}
    assert offsets(clocks(evidence(ahead, least))) == dict.fromkeys("abc", 0)


def test_of_one_direction_the_fastest_message_took_no_time() -> None:
    ahead = {"consumer": -5 * SECOND, "publisher": 0}
    (found,) = {each for each in offsets(clocks(evidence(ahead, {("publisher", "consumer"): MS}))).values() if each}
    assert abs(found) == 5 * SECOND - MS


def test_a_slow_queue_in_the_other_direction_is_not_taken_for_a_clock() -> None:
    ahead = {"a": 0, "b": 50 * MS, "c": 0}
    least = {("a", "b"): 5 * SECOND, ("b", "a"): 3 * MS, ("a", "c"): MS, ("c", "a"): MS}
    assert offsets(clocks(evidence(ahead, least))) == {"a": 0, "b": 47 * MS, "c": 0}


def test_hours_are_apart() -> None:
    found = clocks([Evidence(7, "a", "b", -SECOND, 1), Evidence(8, "a", "b", SECOND, 2)])
    assert [each[:3] for each in found if each.offset_ns] == [(7, "b", -SECOND)]
    assert [each for each in found if each.hour == 8] == [Clock(8, "a", 0, 2), Clock(8, "b", 0, 2)]


@pytest.mark.parametrize("seed", range(20))
def test_no_message_is_delivered_before_its_publish_by_corrected_clocks(seed: int) -> None:
    """Clocks of some hosts, some of which exchange messages, in one direction or in both."""
    chosen = random.Random(seed)
    hosts = [f"host-{number}" for number in range(chosen.randint(2, 9))]
    ahead = {host: chosen.choice((0, 0, chosen.randint(-9 * SECOND, 9 * SECOND))) for host in hosts}
    least = {
        (one, other): chosen.choice((0, MS, chosen.randint(0, 20 * SECOND)))
        for one in hosts
        for other in hosts
        if one != other and chosen.random() < 0.5
    }
    seen = list(evidence(ahead, least))
    found = offsets(clocks(chosen.sample(seen, len(seen))))
    assert found == offsets(clocks(seen))
    for each in seen:
        assert each.least_ns - found[each.delivered] + found[each.published] >= 0
    if all(each.least_ns >= 0 for each in seen):
        assert not any(found.values())


def test_clocks_that_were_set_within_the_hour_have_the_middle() -> None:
    contradiction = [Evidence(7, "a", "b", -3 * SECOND, 5), Evidence(7, "b", "a", SECOND, 5)]
    assert sorted(offsets(clocks(contradiction)).values()) == [-2 * SECOND, 0]


def test_the_number_of_chains_is_bounded() -> None:
    many = [Evidence(7, f"a{number}", "b", -SECOND, number + 1) for number in range(MAX_CHAINS + 50)]
    found = clocks(many)
    assert len(found) == MAX_CHAINS + 51
    assert {chain: offset for chain, offset in offsets(found).items() if offset} == {"b": -SECOND}
