"""Links of random runs of a model broker: a link that is called sure is never wrong."""

from __future__ import annotations

from collections import Counter

import pytest

from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.linking.message_life import (
    DELIVERY_COST,
    KEPT_FIRST,
    LIFE_COST,
    MAX_DELIVERIES,
    MAX_REPLIES,
    Delivery,
    MessageLife,
)
from amqproxy.linking.message_linker import MessageLinker
from amqproxy.taps.note import Note
from amqproxy.taps.trace.events import (
    HistoryLost,
    MessageDelivered,
    MessagePublished,
    PublishesSettled,
    Settlement,
    TraceEvent,
)
from tests.linking.events import delivered, delivery_settled, opened, publish_settled, published
from tests.linking.model_broker import Message, ModelBroker

RUNS = 150
STEPS = 300


class Checked:
    """A linker, and the truth about the deliveries that it has linked."""

    def __init__(self, memory: int = 1 << 24) -> None:
        self.linker = MessageLinker(memory, on_delivered=self.keep, on_forgotten=self.check)
        self.truth: dict[int, tuple[Delivery, Message]] = {}
        self.message: Message | None = None
        self.counts: Counter[str] = Counter()

    def show(self, stream: int, event: TraceEvent, message: Message | None) -> None:
        self.message = message
        self.linker.take(stream, [event])
        assert message is None or isinstance(event, MessageDelivered)

    def keep(self, life: MessageLife, delivery: Delivery) -> None:
        assert self.message is not None
        self.truth[id(delivery)] = delivery, self.message

    def check(self, life: MessageLife) -> None:
        for delivery in life.deliveries:
            _, message = self.truth.pop(id(delivery))
            publish = life.publish
            found = None if publish is None else (publish.place.stream, publish.number)
            is_right = found == message.publish
            self.counts["deliveries"] += 1
            if delivery.is_sure:
                assert is_right, (delivery, message)
                self.counts["sure"] += 1
            elif publish is None:
                self.counts["unlinked"] += 1
            else:
                self.counts["right" if is_right else "wrong"] += 1

    def finish(self) -> None:
        for life in self.linker.lives.values():
            self.check(life)
        assert not self.truth


def runs(protocol: str, *, is_joined: bool = False, memory: int = 1 << 24) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in range(RUNS):
        checked = Checked(memory)
        ModelBroker(seed, checked.show, protocol=protocol, is_joined=is_joined).run(STEPS)
        checked.finish()
        counts += checked.counts
    return counts


@pytest.mark.parametrize("protocol", ["0-9-1", "0-10"])
def test_a_sure_link_is_right(protocol: str) -> None:
    """Most are sure, though two runs of three have few contents without message-ids, and queues that lose messages."""
    counts = runs(protocol)
    assert counts["sure"] > 0.7 * counts["deliveries"]
    assert counts["unlinked"] < 0.01 * counts["deliveries"]


@pytest.mark.parametrize("protocol", ["0-9-1", "0-10"])
def test_a_sure_link_is_right_after_joining(protocol: str) -> None:
    """Only messages with an id are: alike ones may have been published before."""
    counts = runs(protocol, is_joined=True)
    assert counts["sure"] > 0.25 * counts["deliveries"]


@pytest.mark.parametrize("protocol", ["0-9-1", "0-10"])
def test_a_sure_link_is_right_though_most_is_forgotten(protocol: str) -> None:
    counts = runs(protocol, memory=20_000)
    assert counts["sure"] > 0.4 * counts["deliveries"]


def linked(*events: TraceEvent) -> MessageLinker:
    """Events of a publisher, connection 1, and of consumers, connection 2."""
    linker = MessageLinker(1 << 20)
    for stream in (1, 2):
        linker.take(stream, [opened()])
    for event in events:
        linker.take(1 if isinstance(event, MessagePublished | PublishesSettled) else 2, [event])
    return linker


def test_the_life_of_a_message_that_is_requeued_and_dead_lettered() -> None:
    died = {"count": 1, "reason": "rejected", "queue": "q", "exchange": "x", "routing-keys": ["k"]}
    linker = linked(
        published(1, awaits=True, confirm_tag=1),
        publish_settled(2, Settlement.CONFIRMED),
        delivered(3),
        delivery_settled(4, Settlement.REJECTED, requeue=True),
        delivered(5, tag=2, redelivered=True),
        delivery_settled(6, Settlement.REJECTED, tag=2),
        delivered(7, tag=3, exchange="dlx", queue="dead", properties=Properties(headers=Table({"x-death": [died]}))),
    )
    (life,) = linker.lives.values()
    assert life.publish is not None
    assert life.publish.outcome == "confirmed"
    first, again, dead = life.deliveries
    assert (first.former, again.former, dead.former) == (None, first, again)
    assert (dead.died_in, dead.died_of) == ("q", "rejected")
    assert all(each.is_sure for each in life.deliveries)


def test_publishes_that_reached_no_queue_are_not_linked() -> None:
    """Issue 32: the one rolled back a minute before is not the one delivered."""
    linker = linked(
        published(1, awaits=True),
        publish_settled(2, Settlement.ROLLED_BACK),
        published(3, number=2, awaits=True, confirm_tag=1),
        publish_settled(4, Settlement.NACKED, 2),
        published(60, number=3),
        delivered(61),
    )
    assert [len(life.deliveries) for life in linker.lives.values()] == [0, 0, 1]
    assert linker.lives[3].deliveries[0].is_sure


def test_a_publish_that_a_rule_refused_is_not_linked() -> None:
    linker = linked()
    linker.take(1, [published(1)], Note(verdict="refused"))
    linker.take(1, [published(2, number=2)])
    linker.take(2, [delivered(3)])
    assert [len(life.deliveries) for life in linker.lives.values()] == [0, 1]


def test_a_link_is_undone_when_the_publish_is_rolled_back_later() -> None:
    linker = linked(published(1, awaits=True), delivered(2), publish_settled(3, Settlement.ROLLED_BACK))
    published_one, other = linker.lives.values()
    assert published_one.deliveries == []
    assert other.publish is None
    assert not other.deliveries[0].is_sure


def test_redeliveries_of_a_publish_that_was_not_seen_are_one_life() -> None:
    linker = linked(
        delivered(1), delivery_settled(2, Settlement.NACKED, requeue=True), delivered(3, tag=2, redelivered=True)
    )
    (life,) = linker.lives.values()
    assert life.deliveries[1].former is life.deliveries[0]
    assert not life.deliveries[1].is_sure


def test_after_joining_content_alone_is_not_sure() -> None:
    with_id = Properties(message_id="1")
    linker = linked(HistoryLost(0, sender=None, reason=""), published(1), published(2, number=2, properties=with_id))
    linker.take(2, [delivered(3), delivered(4, tag=2, properties=with_id)])
    assert [life.deliveries[0].is_sure for life in linker.lives.values()] == [False, True]


def test_a_rewritten_exchange_is_linked_by_message_id_but_not_sure() -> None:
    with_id = Properties(message_id="1")
    linker = linked(published(1, properties=with_id), delivered(2, exchange="other", properties=with_id))
    assert not linker.lives[1].deliveries[0].is_sure


def test_settled_lives_are_forgotten_first() -> None:
    linker = MessageLinker(4000)
    linker.take(1, [opened()])
    linker.take(1, [published(0, b"waits")])
    for number in range(2, 50):
        body = b"%d" % number
        linker.take(1, [published(number, body, number=number), delivered(number, body, tag=number)])
        linker.take(1, [delivery_settled(number, Settlement.ACKED, number)])
    assert min(linker.lives) == 1
    assert linker.size <= 4000
    assert (linker.forgotten + len(linker.lives), linker.forgotten_open) == (49, 0)
    assert sum(life.cost for life in linker.lives.values()) == linker.size


def test_a_publish_and_a_delivery_are_found_by_their_numbers() -> None:
    linker = linked(published(1, number=5), delivered(2, tag=7))
    assert linker.at(1, 1, 5, 1, is_delivery=False) is linker.at(2, 1, 7, 2, is_delivery=True) is linker.lives[1]
    assert linker.at(1, 1, 6, 1, is_delivery=False) is None


def requeued(linker: MessageLinker, times: int) -> None:
    """Deliver a published message again and again, as with a consumer that requeues it."""
    linker.take(1, [opened()])
    linker.take(1, [published(1)])
    for tag in range(1, times + 1):
        linker.take(1, [delivered(tag, tag=tag, redelivered=tag > 1)])
        linker.take(1, [delivery_settled(tag, Settlement.NACKED, tag, requeue=True)])


def test_a_message_that_is_requeued_without_end_has_a_bounded_life() -> None:
    linker = MessageLinker(1 << 30)
    requeued(linker, 10 * MAX_DELIVERIES)
    (life,) = linker.lives.values()
    assert (len(life.deliveries), life.left_out) == (MAX_DELIVERIES, 9 * MAX_DELIVERIES)
    assert [each.tag for each in life.deliveries[: KEPT_FIRST + 1]] == [
        *range(1, KEPT_FIRST + 1),
        9 * MAX_DELIVERIES + 129,
    ]
    assert life.deliveries[-1].tag == 10 * MAX_DELIVERIES
    assert all(each.is_sure for each in life.deliveries)
    assert life.deliveries[KEPT_FIRST].former is None
    assert linker.size == life.cost == LIFE_COST + len("xk") + MAX_DELIVERIES * DELIVERY_COST
    assert len(linker._settled) == 1
    assert not linker._delivered


def test_open_deliveries_that_are_left_out_are_not_awaited() -> None:
    linker = MessageLinker(1 << 30)
    linker.take(1, [opened()])
    linker.take(1, [published(1)])
    for tag in range(1, 2 * MAX_DELIVERIES + 1):
        linker.take(1, [delivered(tag, tag=tag, queue=f"q{tag}")])
    (life,) = linker.lives.values()
    assert sum(map(len, linker._delivered.values())) == MAX_DELIVERIES
    assert not life.deliveries[-1].is_sure  # the first delivery of its queue may have been left out
    assert life.deliveries[MAX_DELIVERIES - 1].tag == 2 * MAX_DELIVERIES


def test_a_request_with_endless_replies_lists_the_first() -> None:
    linker = MessageLinker(1 << 30)
    linker.take(1, [opened()])
    linker.take(1, [published(1, properties=Properties(correlation_id="c", reply_to="r"))])
    for number in range(MAX_REPLIES + 3):
        linker.take(1, [published(2, b"%d" % number, routing_key="r", properties=Properties(correlation_id="c"))])
    request = linker.lives[1]
    assert (len(request.replies), request.more_replies) == (MAX_REPLIES, 3)
