"""A bound of one connection, within that of all."""

from amqproxy.taps.topology.partial_budget import PartialBudget
from amqproxy.taps.trace.budget import Budget


def test_both_bounds_hold() -> None:
    whole = Budget(10)
    one, other = PartialBudget(6, whole), PartialBudget(6, whole)
    assert one.take(6)
    assert not one.take(1)
    assert not other.take(5)
    assert other.take(4)
    assert (one.used, other.used, whole.used) == (6, 4, 10)
    one.give(6)
    assert (one.used, whole.used) == (0, 4)
    assert other.take(2)
