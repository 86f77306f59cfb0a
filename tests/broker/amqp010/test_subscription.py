"""Credit by itself."""

from __future__ import annotations

import pytest

from amqproxy.broker.amqp010.subscription import INFINITE, Subscription
from tests.broker.yard import Yard


@pytest.fixture
def subscription() -> Subscription:
    return Subscription("d", Yard().queue(), accepts_explicitly=True, acquires=True)


def test_there_is_none_at_first_and_both_kinds_are_needed(subscription: Subscription) -> None:
    assert not subscription.has_credit()
    subscription.add(0, 1)
    assert not subscription.has_credit()
    subscription.add(1, 10)
    assert subscription.has_credit()
    subscription.spend(4)
    assert (subscription.messages, subscription.size) == (0, 6)
    subscription.give_back(4)
    assert subscription.has_credit()


@pytest.mark.parametrize("value", [None, INFINITE])
def test_without_a_limit_it_lasts_until_it_is_cleared(subscription: Subscription, value: int | None) -> None:
    subscription.add(0, value)
    subscription.add(1, value)
    subscription.add(1, 5)
    subscription.spend(1 << 40)
    assert (subscription.messages, subscription.size) == (None, None)
    subscription.clear()
    assert not subscription.has_credit()


def test_what_was_too_large_needs_as_much(subscription: Subscription) -> None:
    subscription.add(0, 1)
    subscription.add(1, 10)
    subscription.needs = 11
    assert not subscription.has_credit()
    subscription.add(1, 1)
    assert subscription.has_credit()
