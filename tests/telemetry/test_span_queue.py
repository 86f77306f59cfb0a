"""Spans on their way from the loop to the thread that exports them."""

import threading
from typing import Any

from amqproxy.telemetry.message_span import PUBLISH, MessageSpan
from amqproxy.telemetry.span_budget import SpanBudget
from amqproxy.telemetry.span_queue import BATCH, SpanQueue


def spans(budget: SpanBudget, count: int) -> list[MessageSpan]:
    """Spans for which there is room."""
    fields: dict[str, Any] = {"connection": {}, "context": None, "channel": 1}
    made = [
        MessageSpan(operation=PUBLISH, start_ns=number, exchange="", routing_key="", cost=1024, **fields)
        for number in range(count)
    ]
    assert all(budget.take(each.cost, 0, 0) for each in made)
    return made


def test_in_order_and_in_batches() -> None:
    budget = SpanBudget(10_000, 1 << 30)
    queue = SpanQueue(budget)
    queue.add(spans(budget, BATCH + 1))
    first, second, third = queue.take(), queue.take(), queue.take()
    assert ([each.start_ns for each in first], len(second), third) == (list(range(BATCH)), 1, [])
    queue.give_back(first)
    queue.give_back(second)
    assert budget.spans == 0


def test_waiting_ends_with_a_full_batch_or_the_end() -> None:
    budget = SpanBudget(10_000, 1 << 30)
    queue = SpanQueue(budget)
    for end in (lambda: queue.add(spans(budget, BATCH)), queue.close):
        waiting = threading.Thread(target=queue.wait, args=(60,))
        waiting.start()
        queue.add(spans(budget, 1))
        end()
        waiting.join(30)
        assert not waiting.is_alive()
        queue.take()


def test_nothing_is_added_after_the_end() -> None:
    budget = SpanBudget(100, 1 << 20)
    queue = SpanQueue(budget)
    queue.add(spans(budget, 2))
    queue.close()
    queue.add(spans(budget, 3))
    assert budget.spans == 2
    assert queue.clear() == 2
    assert budget.spans == 0
