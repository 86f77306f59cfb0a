"""Sets of command ids, beside plain sets of numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp010.command_ids import CommandIds, id_of, position_of

ranges = st.builds(lambda start, size: range(start, start + size), st.integers(0, 40), st.integers(1, 12))


@pytest.mark.parametrize(
    ("command_id", "near", "position"),
    [
        (5, 5, 5),
        (4, 5, 4),
        (6, 5, 6),
        (0, 2**32 - 1, 2**32),
        (2**32 - 1, 2**32, 2**32 - 1),
        (2**32 - 1, 0, -1),
        (2**31 - 1, 0, 2**31 - 1),
        (2**31, 0, -(2**31)),
    ],
)
def test_a_position_is_the_closest_with_its_id(command_id: int, near: int, position: int) -> None:
    assert position_of(command_id, near) == position
    assert id_of(position) == command_id


@given(st.integers(-(2**40), 2**40), st.integers(-(2**31), 2**31 - 1))
def test_ids_roll_over(near: int, distance: int) -> None:
    assert position_of(id_of(near + distance), near) == near + distance


@given(st.lists(st.tuples(st.booleans(), ranges), max_size=40))
def test_it_is_a_set(steps: list[tuple[bool, range]]) -> None:
    ids, plain = CommandIds(), set[int]()
    for is_added, numbers in steps:
        if is_added:
            ids.add(numbers)
            plain |= set(numbers)
        else:
            removed = ids.remove(numbers)
            assert [number for each in removed for number in each] == sorted(plain & set(numbers))
            plain -= set(numbers)
        assert [number for each in ids for number in each] == sorted(plain)
        assert bool(ids) == bool(plain)
        assert ids.count == len(plain)
        assert ids.first == min(plain, default=None)
        assert ids.has_all(numbers) == (set(numbers) <= plain)
        assert ids.has_any(numbers) == bool(set(numbers) & plain)
        assert all((number in ids) is (number in plain) for number in numbers)
        assert list(CommandIds.of([*ids, *ids])) == list(ids)
        assert ids.ranges == sum(number - 1 not in plain for number in plain), "ranges do not touch"
    ids.clear()
    assert not ids
    assert ids.count == 0


@given(st.lists(ranges, max_size=20), st.lists(ranges, max_size=20), ranges)
def test_what_there_is_moves(before: list[range], there: list[range], moved: range) -> None:
    ids, to = CommandIds.of(before), CommandIds()
    for each in there:
        to.extend(each.start, each.stop)
    plain, target = ({number for each in some for number in each} for some in (before, there))
    ids.move(moved.start, moved.stop, to)
    assert {number for each in ids for number in each} == plain - set(moved)
    assert {number for each in to for number in each} == target | (plain & set(moved))


def test_what_follows_makes_one_range() -> None:
    ids = CommandIds()
    for number in range(7, 1007):
        ids.add(range(number, number + 1))
    assert list(ids) == [range(7, 1007)]
    assert repr(ids) == "<CommandIds 7-1006>"


def test_what_is_missing_next() -> None:
    made = CommandIds.of([range(2, 5), range(6, 8)])
    assert [made.next_missing(position) for position in range(1, 9)] == [1, 5, 5, 5, 5, 8, 8, 8]
    assert CommandIds().next_missing(3) == 3
