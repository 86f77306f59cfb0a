"""Whose turn it is."""

from __future__ import annotations

import pytest

from amqproxy.broker.queues.consumer import Consumer
from amqproxy.broker.queues.round_robin import RoundRobin, SingleActiveConsumer
from tests.broker.yard import Taker, Yard


def consumers(priorities: str, turns: RoundRobin) -> dict[str, Taker]:
    """`a0 b5`: two consumers and their priorities, in line."""
    takers = {}
    for word in priorities.split():
        taker = Taker(Yard().queue(), 0, 1 << 30, Yard(), arguments={"x-priority": int(word[1:])})
        taker.consumer.tag = word[0]
        takers[word[0]] = taker
        turns.add(taker.consumer)
    return takers


def order(turns: RoundRobin, count: int) -> str:
    return "".join(consumer.tag if (consumer := turns.next()) else "-" for _ in range(count))


@pytest.mark.parametrize(
    ("priorities", "expected"),
    [("", "---"), ("a0", "aaa"), ("a0 b0 c0", "abcabc"), ("a0 b5 c5 d1", "bcbc"), ("a-1 b0", "bb")],
)
def test_order(priorities: str, expected: str) -> None:
    turns = RoundRobin()
    consumers(priorities, turns)
    assert order(turns, len(expected)) == expected


def test_who_cannot_take_is_passed_over_until_put_back() -> None:
    turns = RoundRobin()
    takers = consumers("a0 b5 c5", turns)
    takers["b"].room = takers["c"].room = 0
    assert order(turns, 2) == "aa"
    assert [takers[name].consumer.is_blocked for name in "abc"] == [False, True, True]
    takers["c"].room = 1
    assert order(turns, 2) == "aa"
    turns.add(takers["c"].consumer)
    assert order(turns, 2) == "cc"


def test_back_in_line_is_at_its_end() -> None:
    turns = RoundRobin()
    takers = consumers("a0 b0 c0", turns)
    takers["a"].room = 0
    assert order(turns, 3) == "bcb"
    takers["a"].room = 1
    turns.add(takers["a"].consumer)
    assert order(turns, 3) == "cba"


@pytest.mark.parametrize("is_blocked", [False, True])
def test_remove(is_blocked: bool) -> None:
    turns = RoundRobin()
    takers = consumers("a0 b0", turns)
    if is_blocked:
        takers["a"].room = 0
        order(turns, 1)
    turns.remove(takers["a"].consumer)
    assert order(turns, 2) == "bb"
    turns.remove(takers["b"].consumer)
    assert order(turns, 1) == "-"
    assert not takers["a"].consumer.is_blocked


def test_single_turn() -> None:
    """One has it all until it goes; then the highest priority, and the oldest of these."""
    turns = SingleActiveConsumer()
    takers = consumers("a0 b1 c5 d5", turns)

    def gone(name: str) -> Consumer | None:
        turns.remove(takers[name].consumer)
        return turns.active

    assert order(turns, 2) == "aa"
    takers["a"].room = 0
    assert order(turns, 2) == "--"
    assert takers["a"].consumer.is_blocked
    takers["a"].room = 1
    turns.add(takers["a"].consumer)
    assert order(turns, 1) == "a"
    assert gone("b") is takers["a"].consumer
    assert gone("a") is takers["c"].consumer
    assert order(turns, 1) == "c"
    assert gone("c") is takers["d"].consumer
    assert gone("d") is None
