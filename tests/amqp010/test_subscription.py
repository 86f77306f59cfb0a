"""Subscriptions that follow one another under one name."""

from amqproxy.amqp010.subscription import Subscription


def test_a_subscription_sends_once_those_before_it_are_over() -> None:
    first = Subscription("d", "q", (0, 0))
    made = [first]
    for _ in range(3):
        made.append(Subscription("d", "q", (0, 0)))
        made[-1].former = made[-2]
    assert made[-1].current is first
    made[1].is_over = True  # out of turn
    assert made[-1].current is first
    made[2].is_over = True
    assert made[-1].current is first
    first.is_over = True
    assert made[-1].current is made[-1]
    assert made[-1].former is None
