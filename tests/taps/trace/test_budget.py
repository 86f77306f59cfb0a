"""A bound that channels share."""

from __future__ import annotations

from amqproxy.taps.trace.budget import Budget


def test_what_is_taken_must_be_there() -> None:
    budget = Budget(10)
    assert budget.take(7)
    assert not budget.take(4)
    assert budget.left == 3
    budget.give(7)
    assert budget.take(10)
