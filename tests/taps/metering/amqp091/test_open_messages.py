"""Open tags: against a dictionary, which remembers everything."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.taps.metering.amqp091.open_messages import MAX_OPEN, MAX_READS, OpenMessages
from amqproxy.taps.metering.distribution import Distribution
from amqproxy.taps.metering.message_counts import SECONDS
from amqproxy.taps.trace.open_tags import Span

operations = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 40), st.integers(0, 3)),  # how many tags further, and ms later
        st.tuples(st.just("settle"), st.integers(0, 400), st.booleans()),
    ),
    max_size=300,
)


def bucketed(seconds: list[float]) -> list[int]:
    found = Counter(bisect_left(SECONDS, each) for each in seconds)
    return [found[place] for place in range(len(SECONDS) + 1)]


@given(operations)
def test_as_a_dictionary(program: list[tuple[str, int, int]]) -> None:
    messages, seconds = OpenMessages(), Distribution(SECONDS)
    since: dict[int, int] = {}
    observed: list[float] = []
    now = last = 0
    for operation, number, other in program:
        if operation == "add":
            last, now = last + number, now + other * 1_000_000
            messages.add(last, now)
            since[last] = now
            continue
        now += 1_000
        if not other:
            gone = [number] if number in since else []
        else:
            gone = [tag for tag in since if tag <= (number or last)] if number <= last else []
        assert messages.settle(number, bool(other), now, seconds) == len(gone)
        observed += [(now - since.pop(tag)) / 1e9 for tag in gone]
        assert messages.count == len(since)
    assert list(seconds.counts) == bucketed(observed)
    assert seconds.total == pytest.approx(sum(observed))
    assert [tag for tag in range(last + 2) if messages.is_open(tag)] == sorted(since)
    assert messages.clear() == len(since)
    assert messages.untimed == messages.forgotten == messages.count == 0


def test_too_many_that_are_open_are_forgotten_the_oldest_first() -> None:
    messages, seconds = OpenMessages(), Distribution(SECONDS)
    for tag in range(1, MAX_OPEN + 11):
        messages.add(tag, 5)
    assert (messages.count, messages.forgotten) == (MAX_OPEN, 10)
    assert not messages.is_open(10)
    assert messages.is_open(11)
    assert messages.settle(0, True, 6, seconds) == MAX_OPEN
    assert messages.memory_used < 10_000


def test_one_that_stays_open_is_forgotten_when_the_newest_is_far_from_it() -> None:
    messages, seconds = OpenMessages(), Distribution(SECONDS)
    messages.add(1, 5)
    messages.add(3, 5)
    messages.add(10**12, 6)
    assert (messages.count, messages.forgotten) == (1, 2)
    assert messages.settle(10**12, False, 7, seconds) == 1


def test_what_came_before_the_reads_that_are_remembered_has_no_latency() -> None:
    messages, seconds = OpenMessages(), Distribution(SECONDS)
    for tag in range(1, MAX_READS + 4):
        messages.add(tag, tag)
    assert messages.settle(2, False, MAX_READS + 10, seconds) == 1
    assert (messages.untimed, sum(seconds.counts)) == (1, 0)
    assert messages.settle(0, True, MAX_READS + 10, seconds) == MAX_READS + 2
    assert (messages.untimed, sum(seconds.counts)) == (3, MAX_READS)


def test_a_tag_that_is_used_twice_is_neither() -> None:
    messages, seconds = OpenMessages(), Distribution(SECONDS)
    messages.add(1, 5)
    messages.add(1, 6)
    assert (messages.count, messages.forgotten) == (0, 1)
    assert messages.settle(1, False, 7, seconds) == 0


@pytest.mark.parametrize("multiple", [False, True])
def test_the_largest_number_there_is_ends_nothing(multiple: bool) -> None:
    """A broker that counts wrongly must not make a loop over tags go round for ever."""
    messages, seconds = OpenMessages(), Distribution(SECONDS)
    largest = 2**64 - 1
    messages.add(largest - 1, 5, 3)
    assert (messages.count, messages.last) == (1, largest - 1)
    assert messages.settle(largest, multiple, 6, seconds) == 0
    assert messages.settle(0, True, 6, seconds) == 1
    messages.add(largest, 7)
    messages.add(3, 7)
    assert (messages.count, messages.clear()) == (0, 0)


@given(st.lists(st.integers(1, 2 * MAX_OPEN), min_size=1, max_size=20), st.data())
def test_tags_that_are_far_apart(steps: list[int], data: st.DataObject) -> None:
    messages, seconds = OpenMessages(), Distribution(SECONDS)
    since: list[int] = []
    last = 0
    for step in steps:
        last += step
        messages.add(last, last)
        since = [tag for tag in since if last - tag < MAX_OPEN] + [last]
        assert messages.count == len(since)
        if data.draw(st.booleans()):
            tag = data.draw(st.sampled_from(since))
            multiple = data.draw(st.booleans())
            gone = [each for each in since if each == tag or (multiple and each < tag)]
            assert messages.settle(tag, multiple, last, seconds) == len(gone)
            since = [each for each in since if each not in gone]
    assert all(map(messages.is_open, since))
    assert messages.clear() == len(since)
    assert messages.count == 0
    messages.add(last + 1, 5)
    assert messages.settle(0, True, 6, seconds) == 1


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(1, 300), st.integers(0, 300)), max_size=40))
def test_several_at_once_as_one_by_one(program: list[tuple[int, int, int]]) -> None:
    together, apart = OpenMessages(), OpenMessages()
    seconds, others = Distribution(SECONDS), Distribution(SECONDS)
    last = 0
    for now, (gap, count, settled) in enumerate(program, 1):
        first = last + 1 + gap - 100 if last > 100 else last + 1 + gap
        together.add(first, now, count)
        for tag in range(first, first + count):
            apart.add(tag, now)
        last = max(last, first + count - 1)
        start = max(1, last - settled - 50)
        found = together.settle_range(start, start + settled, now + 1, seconds)
        assert found == sum(apart.settle(tag, False, now + 1, others) for tag in range(start, start + settled + 1))
        assert (together.count, together.last, together.forgotten) == (apart.count, apart.last, apart.forgotten)
    assert [together.is_open(tag) for tag in range(last + 2)] == [apart.is_open(tag) for tag in range(last + 2)]
    assert (seconds.counts, together.untimed) == (others.counts, apart.untimed)


def test_more_at_once_than_there_is_room_for() -> None:
    messages, seconds = OpenMessages(), Distribution(SECONDS)
    messages.add(1, 5, 3 * MAX_OPEN + 7)
    assert (messages.count, messages.last, messages.forgotten) == (MAX_OPEN, 3 * MAX_OPEN + 7, 2 * MAX_OPEN + 7)
    assert messages.settle_range(1, 2**64 - 1, 6, seconds) == MAX_OPEN


@given(operations, st.integers(1, 12))
def test_spans_are_the_newest_ranges_of_each_read(program: list[tuple[str, int, int]], most: int) -> None:
    messages, seconds = OpenMessages(), Distribution(SECONDS)
    since: dict[int, int] = {}
    now = last = 0
    for operation, number, other in program:
        if operation == "add":
            last, now = last + number, now + other * 1_000_000
            messages.add(last, now)
            since[last] = now
        else:
            messages.settle(number, bool(other), now, seconds)
            gone = [tag for tag in since if tag <= (number or last)] if other and number <= last else [number]
            for tag in gone:
                since.pop(tag, None)
    expected: list[Span] = []
    for tag in sorted(since):
        span = Span(tag, tag, since[tag] + 7, "consumer")
        before = expected[-1] if expected else None
        if before is not None and (before.last, before.ts_ns) == (tag - 1, span.ts_ns):
            expected[-1] = Span(before.first, tag, span.ts_ns, "consumer")
        else:
            expected.append(span)
    assert messages.spans(most, 7, "consumer") == tuple(expected[-most:])


def test_spans_of_many_tags_of_one_read_and_of_forgotten_times() -> None:
    messages, seconds = OpenMessages(), Distribution(SECONDS)
    messages.add(5, 3, 1000)
    messages.settle(500, False, 4, seconds)
    assert messages.spans(10, 0, None) == (Span(5, 499, 3), Span(501, 1004, 3))
    for tag in range(2000, 2000 + 2 * MAX_READS, 2):
        messages.add(tag, tag)
    assert len(messages.spans(2 * MAX_READS, 0, None)) == MAX_READS
