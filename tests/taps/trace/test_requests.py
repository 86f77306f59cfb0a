"""Which request a reply answers."""

from __future__ import annotations

from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicQos,
    BasicQosOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.taps.trace.budget import Budget
from amqproxy.taps.trace.consumers import REPLY_TO
from amqproxy.taps.trace.requests import MAX_PENDING, PendingRequests


def pending(*requests: Method, memory: int = 10_000_000) -> PendingRequests:
    made = PendingRequests(Budget(memory))
    for ts_ns, request in enumerate(requests):
        made.add(ts_ns, request)
    return made


def answered(requests: PendingRequests, *replies: Method) -> list[Method | None]:
    found = [requests.match(reply) for reply in replies]
    return [None if each is None else each.request for each in found]


def test_replies_may_overtake_those_of_other_kinds() -> None:
    declare, qos, get = QueueDeclare(queue="q"), BasicQos(), BasicGet(queue="q")
    requests = pending(declare, qos, get)
    assert answered(requests, BasicGetEmpty(), BasicQosOk(), QueueDeclareOk("q")) == [get, qos, declare]
    assert requests.match(BasicQosOk()) is None


def test_a_consumer_that_the_broker_names_is_one_that_the_client_has_not_named() -> None:
    named, unnamed = BasicConsume(consumer_tag="a"), BasicConsume()
    requests = pending(named, unnamed)
    assert answered(requests, BasicConsumeOk("amq.ctag-1"), BasicConsumeOk("a")) == [unnamed, named]


def test_of_consumers_without_a_name_those_for_direct_replies_are_answered_at_once() -> None:
    requests = pending(BasicConsume(queue="q"), BasicConsume(queue=REPLY_TO))
    assert answered(requests, BasicConsumeOk("amq.ctag-2"), BasicConsumeOk("amq.ctag-1")) == [None, None]
    consume = BasicConsume(queue="q")
    requests.add(0, consume)
    assert answered(requests, BasicConsumeOk("amq.ctag-3")) == [consume]


def test_beyond_the_limit_requests_are_counted_but_not_remembered() -> None:
    requests = pending(*[BasicQos(prefetch_count=1)] * (MAX_PENDING + 2))
    assert requests.of_kind("basic.qos") is None
    found = answered(requests, *[BasicQosOk()] * (MAX_PENDING + 2))
    assert [each is None for each in found] == [False] * MAX_PENDING + [True] * 2
    requests.add(0, BasicQos(prefetch_count=2))
    assert answered(requests, BasicQosOk()) == [BasicQos(prefetch_count=2)]


def test_beyond_the_memory_consumers_are_not_known_as_they_may_be_answered_out_of_turn() -> None:
    requests = pending(*[BasicConsume(queue="q", consumer_tag=str(n)) for n in range(3)], memory=1200)
    assert answered(requests, *[BasicConsumeOk(str(n)) for n in range(3)]) == [None] * 3
    requests.add(0, BasicConsume(consumer_tag="a"))
    assert answered(requests, BasicConsumeOk("a")) == [BasicConsume(consumer_tag="a")]


def test_after_a_loss_none_is_remembered() -> None:
    requests = pending(BasicQos())
    requests.lose()
    requests.add(0, BasicQos())
    assert answered(requests, BasicQosOk()) == [None]
    assert requests.clear() == []


def test_those_without_a_reply_are_in_the_order_of_their_times() -> None:
    budget = Budget(10_000)
    requests = PendingRequests(budget)
    requests.add(1, BasicQos(), size=10)
    requests.add(2, QueueDeclare())
    requests.add(3, BasicQos())
    assert budget.left < 10_000
    assert [each.ts_ns for each in requests.clear()] == [1, 2, 3]
    assert budget.left == 10_000


class CountedTag(str):
    """A consumer tag that counts how often any is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedTag.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_a_reply_costs_the_same_however_many_consumers_are_awaited() -> None:
    """A client may ask for a thousand at once, and the broker answer them all in one read."""
    tags = [CountedTag(f"tag {number}") for number in range(1000)]
    requests = pending(*[BasicConsume(consumer_tag=tag) for tag in tags])
    assert None not in answered(requests, *[BasicConsumeOk(tag) for tag in reversed(tags)])
    assert CountedTag.compared < 10 * len(tags)
