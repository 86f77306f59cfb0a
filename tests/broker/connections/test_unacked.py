"""What is out under which tag."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.errors import PreconditionFailed
from amqproxy.broker.connections.unacked import UnackedDeliveries, by_queue
from amqproxy.broker.queues.backlog import NEVER
from amqproxy.broker.queues.consumer import QueueEntry
from tests.broker.yard import Yard, message

QUEUE = Yard().queue()


def unacked(*tags: int) -> UnackedDeliveries:
    made = UnackedDeliveries()
    for tag in tags:
        made.add(tag, QueueEntry(QUEUE, message(), tag, NEVER))
    return made


def tags(entries: list[QueueEntry]) -> list[int]:
    return [entry.tag for entry in entries]


@pytest.mark.parametrize(
    ("there", "tag", "multiple", "taken"),
    [
        ([1, 2, 3], 2, False, [2]),
        ([1, 2, 3], 2, True, [1, 2]),
        ([1, 2, 3], 0, True, [1, 2, 3]),
        ([], 0, True, []),
        ([2, 5, 9], 5, True, [2, 5]),
        ([1_000_000, 2_000_000], 1_000_000, True, [1_000_000]),
    ],
)
def test_take(there: list[int], tag: int, multiple: bool, taken: list[int]) -> None:
    assert tags(unacked(*there).settle(tag, multiple)) == taken


@pytest.mark.parametrize(
    ("there", "tag", "multiple"),
    [([], 1, False), ([1], 0, False), ([1, 2], 3, False), ([1, 2], 3, True), ([1, 3], 2, True), ([5], 4, True)],
)
def test_unknown(there: list[int], tag: int, multiple: bool) -> None:
    """With `multiple` too the tag itself must be there, though older ones are."""
    held = unacked(*there)
    with pytest.raises(PreconditionFailed, match=f"unknown delivery tag {tag}"):
        held.settle(tag, multiple)
    assert len(held) == len(there)


@given(
    st.sets(st.integers(1, 60)),
    st.lists(st.tuples(st.integers(1, 65), st.integers(0, 12)), max_size=8),
    st.sets(st.integers(61, 3000), max_size=20),
)
def test_take_range(there: set[int], taken: list[tuple[int, int]], later: set[int]) -> None:
    held = unacked(*sorted(there))
    left = set(there)
    for first, count in taken:
        asked = range(first, first + count)
        assert tags(held.take_range(first, first + count - 1)) == sorted(left & set(asked))
        left -= set(asked)
        assert len(held) == len(left)
        assert held.oldest == min(left, default=0)
    for tag in sorted(later):
        held.add(tag, QueueEntry(QUEUE, message(), tag, NEVER))
    assert tags(held.take_range(1, 3000)) == sorted(left | later)
    assert held.body_bytes == 0
    assert held.oldest == 0


def put_back(held: UnackedDeliveries, taken: list[QueueEntry], most: int = 2) -> list[int]:
    """What each step of it has gone through."""
    return list(held.putting_back(taken, most))


def test_put_back_is_in_order_again() -> None:
    held = unacked(1, 2, 3, 4)
    taken = held.settle(3, False) + held.settle(2, True)
    put_back(held, taken)
    assert tags(held.settle(2, True)) == [1, 2]
    assert tags(held.take_all()) == [3, 4]


steps = st.lists(st.tuples(st.sampled_from(["add", "one", "many", "all", "undo"]), st.integers(0, 30)), max_size=60)


@given(steps)
def test_like_a_sorted_list(steps: list[tuple[str, int]]) -> None:
    held, there, last = UnackedDeliveries(), list[int](), 0
    taken: list[QueueEntry] = []
    for step, number in steps:
        if step == "add":
            last += 1 + number % 3
            held.add(last, QueueEntry(QUEUE, message(), last, NEVER))
            there.append(last)
        elif step == "all":
            assert tags(held.take_all()) == there
            there = []
        elif step == "undo":
            put_back(held, taken)
            there = sorted([*there, *tags(taken)])
            taken = []
        elif there:
            tag = there[number % len(there)]
            taken = held.settle(tag, step == "many")
            assert tags(taken) == ([each for each in there if each <= tag] if step == "many" else [tag])
            there = [each for each in there if each not in tags(taken)]
        if step in ("add", "all"):
            taken = []
        assert len(held) == len(there)


@given(st.sets(st.integers(1, 40), max_size=40), st.integers(0, 60), st.integers(1, 5), st.integers(0, 30))
def test_parts_of_all_up_to_a_tag(gone: set[int], tag: int, most: int, sparse_after: int) -> None:
    """More may be added while it goes on, so that what is in the line is old suddenly."""
    held = unacked(*range(1, 41))
    there = [each for each in range(1, 41) if each not in gone]
    for each in gone:
        held.settle(each, False)
    found = []
    for number, part in enumerate(held.parts(tag, most)):
        assert len(part) <= most
        found += tags(part)
        if number == sparse_after:
            held.add(100, QueueEntry(QUEUE, message(), 100, NEVER))
            there.append(100)
    assert found == [each for each in there if each <= tag]
    assert tags(held.take_all()) == [each for each in there if each > tag]


@given(st.lists(st.integers(1, 40), unique=True, max_size=40), st.integers(1, 5), st.sets(st.integers(0, 50)))
def test_very_many_are_put_back_in_parts(gone: list[int], most: int, added_after: set[int]) -> None:
    """More may be added while it goes on; each step is a small one."""
    held = unacked(*range(1, 41))
    taken = [entry for each in gone for entry in held.settle(each, False)]
    there, last = list(range(1, 41)), 40
    for number, count in enumerate(held.putting_back(taken, most)):
        assert count <= most
        if number in added_after:
            last += 1 + number % 2
            held.add(last, QueueEntry(QUEUE, message(), last, NEVER))
            there.append(last)
    assert tags(held.take_all()) == there


@pytest.mark.parametrize("late", [1, 700])
def test_the_line_stays_short(late: int) -> None:
    """However many come and go, and even while one of them stays: what is left is all that is kept."""
    held = unacked(*range(1, 1001))
    for tag in range(1001, 20_001):
        held.add(tag, QueueEntry(QUEUE, message(), tag, NEVER))
        if tag - 1000 != late:
            assert tags(held.settle(tag - 1000, False)) == [tag - 1000]
    assert len(held) == 1001
    assert tags(held.settle(19_001, True)) == [late, 19_001]
    assert tags(held.take_all()) == list(range(19_002, 20_001))


def test_the_oldest() -> None:
    held = unacked(1, 2, 3, 4)
    assert held.oldest == 1
    held.settle(1, False)
    taken = held.settle(3, False)
    assert held.oldest == 2
    held.settle(2, False)
    assert held.oldest == 4
    put_back(held, taken)
    assert held.oldest == 3
    held.take_all()
    assert held.oldest == 0


def test_bytes_of_the_bodies() -> None:
    held = UnackedDeliveries()
    for tag in range(1, 8):
        held.add(tag, QueueEntry(QUEUE, message(tag * "x"), tag, NEVER))
    assert held.body_bytes == 28
    one, some = held.settle(3, False), held.settle(2, True)
    assert held.body_bytes == 22
    put_back(held, one + some)
    assert held.body_bytes == 28
    held.settle(5, True)
    assert held.body_bytes == 13
    held.take_all()
    assert held.body_bytes == 0


def test_by_queue() -> None:
    one, two = Yard().queue(), Yard().queue()
    entries = [QueueEntry(queue, message(), place, NEVER) for place, queue in enumerate((one, two, one, two, two))]
    assert list(by_queue([])) == []
    assert list(by_queue(entries[1:2])) == [(two, entries[1:2])]
    assert list(by_queue(entries)) == [
        (one, [entries[0], entries[2]]),
        (two, [entries[1], entries[3], entries[4]]),
    ]
