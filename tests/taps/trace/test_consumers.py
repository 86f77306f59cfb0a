"""Which consumers a delivery may be for."""

from __future__ import annotations

from amqproxy.amqp091.methods import BasicConsume
from amqproxy.taps.trace.budget import Budget
from amqproxy.taps.trace.consumers import (
    CONSUMER_COST,
    MAX_ENDING,
    REPLY_TO,
    Consumers,
    DeclaredQueue,
    LastQueue,
    queue_name,
)


def queues(consumers: Consumers, tag: str) -> list[str | None]:
    return [each.queue for each in consumers.find(tag)]


def begun(consumers: Consumers, tag: str, queue: str, last: LastQueue = None) -> None:
    consumers.begin(tag, consumers.number(), BasicConsume(queue=queue, consumer_tag=tag), last)


def may_begin(consumers: Consumers, tag: str, queue: str) -> None:
    consumers.may_begin(tag, consumers.number(), BasicConsume(queue=queue, consumer_tag=tag, no_wait=True), None)


def test_the_queue_that_an_empty_name_stands_for() -> None:
    declared = DeclaredQueue()
    assert [queue_name("q", "r"), queue_name("", "r"), queue_name("", None), queue_name("", declared)] == [
        "q",
        "r",
        None,
        None,
    ]
    declared.name = "amq.gen-1"
    assert queue_name("", declared) == "amq.gen-1"


def test_a_reply_shows_that_earlier_consumers_have_ended() -> None:
    consumers = Consumers(Budget(10_000))
    begun(consumers, "c", "a")
    consumers.may_end("c", consumers.number())
    may_begin(consumers, "c", "b")
    assert queues(consumers, "c") == ["a", "b"]
    begun(consumers, "c", "d")
    assert queues(consumers, "c") == ["d"]
    consumers.end("c", consumers.number())
    assert queues(consumers, "c") == []


def test_a_reply_shows_nothing_of_later_consumers() -> None:
    consumers = Consumers(Budget(10_000))
    begun(consumers, "c", "a")
    cancel = consumers.number()
    may_begin(consumers, "c", "b")
    consumers.end("c", cancel)
    assert queues(consumers, "c") == ["b"]


def test_which_of_several_the_broker_has_cancelled_is_not_known() -> None:
    consumers = Consumers(Budget(10_000))
    may_begin(consumers, "c", "a")
    may_begin(consumers, "c", "b")
    consumers.end_by_broker("c")
    assert queues(consumers, "c") == ["a", "b"]


def test_a_reply_for_direct_replies_may_overtake_deliveries() -> None:
    consumers = Consumers(Budget(10_000))
    begun(consumers, "c", "a")
    begun(consumers, "c", REPLY_TO)
    assert queues(consumers, "c") == ["a", REPLY_TO]


def test_an_unknown_tag_is_of_the_consumer_without_one_unless_others_are_unknown() -> None:
    consumers = Consumers(Budget(10_000))
    may_begin(consumers, "", "a")
    assert queues(consumers, "amq.ctag-1") == ["a"]
    consumers.begin_unknown("x")
    assert queues(consumers, "amq.ctag-1") == []


def test_those_that_end_without_a_reply_are_forgotten_in_time() -> None:
    budget = Budget(10_000_000)
    consumers = Consumers(budget)
    for number in range(MAX_ENDING + 1):
        may_begin(consumers, str(number), "q")
        consumers.may_end(str(number), consumers.number())
    assert queues(consumers, "0") == []
    assert queues(consumers, "1") == ["q"]
    assert budget.left == 10_000_000 - MAX_ENDING * CONSUMER_COST


def test_beyond_the_memory_nothing_is_known() -> None:
    budget = Budget(CONSUMER_COST)
    consumers = Consumers(budget)
    begun(consumers, "a", "q")
    begun(consumers, "b", "q")
    assert (queues(consumers, "a"), queues(consumers, "b")) == (["q"], [])
    consumers.lose()
    assert queues(consumers, "a") == []
    assert budget.left == CONSUMER_COST
