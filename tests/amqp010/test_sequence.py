"""Sequence numbers, sets of them, and ranges of bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp010 import sequence
from amqproxy.amqp010.sequence import MAX_BYTE_RANGES, MAX_RANGES, ByteRanges, SequenceSet
from tests.amqp010 import strategies

LAST = 2**32 - 1
numbers = st.integers(0, LAST)


@pytest.mark.parametrize(
    ("number", "increment", "expected"), [(0, 0, 0), (0, 1, 1), (LAST, 1, 0), (LAST, 2**31 - 1, 2**31 - 2)]
)
def test_addition(number: int, increment: int, expected: int) -> None:
    assert sequence.add(number, increment) == expected


@pytest.mark.parametrize("increment", [-1, 2**31, LAST])
def test_what_cannot_be_added(increment: int) -> None:
    with pytest.raises(ValueError, match="cannot be added"):
        sequence.add(0, increment)


@pytest.mark.parametrize(
    ("number", "other", "expected"),
    [(0, 1, True), (1, 0, False), (0, 0, False), (LAST, 0, True), (0, LAST, False), (0, 2**31 - 1, True)],
)
def test_order(number: int, other: int, expected: bool) -> None:
    assert sequence.is_before(number, other) is expected


@given(numbers)
def test_what_rfc_1982_leaves_undefined_is_in_no_order(number: int) -> None:
    opposite = (number + 2**31) % 2**32
    assert not sequence.is_before(number, opposite)
    assert not sequence.is_before(opposite, number)


@given(numbers, st.integers(1, 2**31 - 1))
def test_what_is_added_comes_after(number: int, increment: int) -> None:
    after = sequence.add(number, increment)
    assert sequence.is_before(number, after)
    assert not sequence.is_before(after, number)
    assert sequence.difference(after, number) == increment
    assert sequence.difference(number, after) == -increment


def test_the_set_of_the_specification() -> None:
    ranges = SequenceSet([(0, 2), (5, 6), (15, 15)])
    assert ranges.to_bytes().hex() == "000000000000000200000005000000060000000f0000000f"
    assert list(ranges) == [0, 1, 2, 5, 6, 15]
    assert ranges.count == 6
    assert SequenceSet.of([15, 6, 2, 1, 0, 5, 5]) == ranges


def test_a_set_that_rolls_over() -> None:
    ranges = SequenceSet([(LAST - 1, 1)])
    assert list(ranges) == [LAST - 1, LAST, 0, 1]
    assert ranges == SequenceSet.of([0, 1, LAST, LAST - 1])
    assert 0 in ranges
    assert 2 not in ranges
    assert LAST in ranges
    assert "0" not in ranges
    assert ranges.is_canonical


def test_a_set_of_all() -> None:
    ranges = SequenceSet([(0, LAST)])
    assert ranges.count == 2**32
    assert 77 in ranges


@pytest.mark.parametrize(
    ("ranges", "is_canonical"),
    [
        ([], True),
        ([(5, 5)], True),
        ([(5, 4)], False),
        ([(0, 2**31)], False),
        ([(1, 2), (4, 5)], True),
        ([(1, 2), (3, 5)], False),
        ([(1, 5), (2, 3)], False),
        ([(4, 5), (1, 2)], False),
        ([(LAST, LAST), (1, 1)], True),
    ],
)
def test_canonical_sets(ranges: list[tuple[int, int]], is_canonical: bool) -> None:
    assert SequenceSet(ranges).is_canonical is is_canonical


@given(st.sets(st.integers(-50, 50), max_size=30), numbers)
def test_a_set_of_numbers_has_these(distances: set[int], near: int) -> None:
    listed = {(near + distance) % 2**32 for distance in distances}
    ranges = SequenceSet.of(listed, near)
    assert ranges.is_canonical
    assert set(ranges) == listed
    assert ranges.count == len(listed)
    assert all(number in ranges for number in listed)
    assert bool(ranges) is bool(listed)


@given(strategies.ranges)
def test_a_set_comes_back_as_it_was(ranges: list[tuple[int, int]]) -> None:
    made = SequenceSet(ranges)
    again = SequenceSet.from_bytes(made.to_bytes())
    assert again == made
    assert hash(again) == hash(made)
    assert again.ranges == tuple(ranges)
    assert again.to_bytes() == made.to_bytes()


@given(strategies.byte_ranges)
def test_ranges_of_bytes_come_back_as_they_were(ranges: list[tuple[int, int]]) -> None:
    made = ByteRanges(ranges)
    again = ByteRanges.from_bytes(made.to_bytes())
    assert again == made
    assert hash(again) == hash(made)
    assert again.ranges == tuple(ranges)
    assert bool(again) is bool(ranges)


@pytest.mark.parametrize(
    ("ranges", "is_canonical"),
    [([], True), ([(2, 1)], False), ([(0, 1), (3, 3)], True), ([(0, 1), (2, 3)], False), ([(0, 9), (3, 4)], False)],
)
def test_canonical_ranges_of_bytes(ranges: list[tuple[int, int]], is_canonical: bool) -> None:
    assert ByteRanges(ranges).is_canonical is is_canonical


def test_how_many_ranges_there_may_be() -> None:
    assert len(SequenceSet([(1, 1)] * MAX_RANGES).to_bytes()) <= 65_535
    assert len(ByteRanges([(1, 1)] * MAX_BYTE_RANGES).to_bytes()) <= 65_535
    with pytest.raises(ValueError, match="8192"):
        SequenceSet([(1, 1)] * (MAX_RANGES + 1))
    with pytest.raises(ValueError, match="4096"):
        ByteRanges([(1, 1)] * (MAX_BYTE_RANGES + 1))


def test_how_they_are_shown() -> None:
    assert repr(SequenceSet([(1, 2)])) == "SequenceSet([(1, 2)])"
    assert repr(ByteRanges([(1, 2)])) == "ByteRanges([(1, 2)])"
