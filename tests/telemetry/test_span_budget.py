"""The bound on spans that are open or wait."""

from amqproxy.telemetry.span_budget import SpanBudget


def taken(budget: SpanBudget, cost: int = 1) -> int:
    """How many spans one connection gets room for."""
    count = 0
    while budget.take(cost, count, count * cost):
        count += 1
    return count


def test_no_connection_takes_more_than_is_left_for_the_others() -> None:
    budget = SpanBudget(100, 1 << 20)
    assert [taken(budget) for _ in range(4)] == [50, 25, 13, 6]
    assert budget.spans == 94


def test_bytes_are_bounded_too() -> None:
    budget = SpanBudget(100, 1000)
    assert taken(budget, 100) == 5
    assert not budget.take(501, 0, 0)
    budget.give(5, 500)
    assert budget.spans == 0
    assert budget.take(501, 0, 0)
