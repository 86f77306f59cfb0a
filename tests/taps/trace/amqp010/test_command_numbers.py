"""The positions of commands."""

from amqproxy.taps.trace.amqp010.command_numbers import CommandNumbers
from tests.taps.trace.amqp010.traced import ids


def test_nothing_is_numbered_before_a_command_point() -> None:
    numbers = CommandNumbers()
    assert numbers.begin() is None
    assert numbers.position(3) is None
    assert list(numbers.ranges(ids((0, 5)))) == []
    assert numbers.is_before(0)


def test_ids_roll_over_and_positions_do_not() -> None:
    numbers = CommandNumbers()
    numbers.point(0xFFFFFFFE)
    assert [numbers.begin() for _ in range(4)] == [0xFFFFFFFE, 0xFFFFFFFF, 0x100000000, 0x100000001]
    assert numbers.position(0) == 0x100000000
    assert list(numbers.ranges(ids((0xFFFFFFFF, 1)))) == [range(0xFFFFFFFF, 0x100000002)]
    assert numbers.is_before(0xFFFFFFFD)


def test_what_has_begun_has_not_been_sent() -> None:
    numbers = CommandNumbers()
    numbers.point(0)
    numbers.begin()
    assert not numbers.has_sent(0)
    numbers.finish()
    assert numbers.has_sent(0)
    assert not numbers.has_sent(1)


def test_a_range_that_runs_backwards_means_nothing() -> None:
    numbers = CommandNumbers()
    numbers.point(10)
    assert list(numbers.ranges(ids((5, 3), (7, 8)))) == [range(7, 9)]


def test_what_is_lost_is_not_known() -> None:
    numbers = CommandNumbers()
    numbers.point(10)
    numbers.lose()
    assert numbers.begin() is None
