"""Publisher confirms: what is confirmed, how, and after what."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.methods import (
    BasicAck,
    BasicNack,
    BasicReturn,
    ConfirmSelect,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
)
from tests.behaviours.client import Channel
from tests.behaviours.scene import Scene

pytestmark = pytest.mark.real


def confirmed(ch: Channel, count: int) -> set[int]:
    """The tags that the next acks confirm, until there are `count`; each is confirmed once."""
    tags: set[int] = set()
    settled = 0
    while len(tags) < count:
        ack = ch.expect(BasicAck).method
        new = set(range(settled + 1, ack.delivery_tag + 1)) - tags if ack.multiple else {ack.delivery_tag}
        assert not new & tags, "confirmed twice"
        tags |= new
        if ack.multiple:
            settled = ack.delivery_tag
    return tags


def test_each_publish_is_confirmed_once(ch: Channel, q: str) -> None:
    ch.confirms()
    for _ in range(100):
        ch.publish("", q)
    assert confirmed(ch, 100) == set(range(1, 101))
    ch.expect_nothing(q)


@pytest.mark.parametrize("delivery_mode", [1, 2])
@pytest.mark.parametrize("arguments", [{}, {"x-queue-type": "quorum"}, {"x-queue-type": "stream"}], ids=str)
def test_on_each_queue_type(scene: Scene, ch: Channel, delivery_mode: int, arguments: dict[str, Any]) -> None:
    queue = ch.declare(scene.q, durable=True, arguments=arguments)
    ch.confirms()
    ch.publish("", queue, b"x", delivery_mode=delivery_mode)
    ch.expect(BasicAck, delivery_tag=1, multiple=False)
    ch.call(QueueDelete(queue=queue))


def test_what_goes_nowhere_is_confirmed(scene: Scene, ch: Channel) -> None:
    ch.confirms()
    ch.publish("", scene.q)
    ch.expect(BasicAck, delivery_tag=1)


def test_what_goes_nowhere_is_confirmed_one_by_one(scene: Scene, ch: Channel) -> None:
    ch.confirms()
    with ch.client.one_write():
        ch.publish("", scene.q)
        ch.publish("", scene.q)
    ch.expect(BasicAck, delivery_tag=1, multiple=False)
    ch.expect(BasicAck, delivery_tag=2, multiple=False)


@pytest.mark.parametrize("mandatory", [False, True])
def test_and_before_the_next_method_is_answered(ch: Channel, q: str, mandatory: bool) -> None:
    ch.confirms()
    with ch.client.one_write():
        ch.publish("", f"not {q}", mandatory=mandatory)
        ch.send(QueueDeclare(queue=q, passive=True))
    if mandatory:
        ch.expect(BasicReturn)
    ch.expect(BasicAck, delivery_tag=1, multiple=False)
    ch.expect(QueueDeclareOk)


def test_and_ahead_of_what_waits_for_its_confirm(scene: Scene, ch: Channel) -> None:
    queue = ch.declare(scene.q, durable=True)
    ch.confirms()
    with ch.client.one_write():
        ch.publish("", queue, delivery_mode=2)
        ch.publish("", f"not {queue}", mandatory=True)
    ch.expect(BasicReturn)
    ch.expect(BasicAck, delivery_tag=2, multiple=False)
    ch.expect(BasicAck, delivery_tag=1, multiple=False)
    ch.call(QueueDelete(queue=queue))


def test_a_return_comes_before_its_ack(scene: Scene, ch: Channel) -> None:
    ch.confirms()
    ch.publish("", scene.q, b"back", mandatory=True)
    assert ch.expect(BasicReturn).body == b"back"
    ch.expect(BasicAck, delivery_tag=1)


def test_counting_begins_with_select(ch: Channel, q: str) -> None:
    for _ in range(3):
        ch.publish("", q)
    ch.confirms()
    ch.publish("", q)
    ch.expect(BasicAck, delivery_tag=1)


def test_select_again_does_not_begin_anew(ch: Channel, q: str) -> None:
    ch.confirms()
    ch.publish("", q)
    ch.expect(BasicAck, delivery_tag=1)
    ch.confirms()
    ch.publish("", q)
    ch.expect(BasicAck, delivery_tag=2)


def test_select_no_wait(ch: Channel, q: str) -> None:
    ch.send(ConfirmSelect(no_wait=True))
    ch.publish("", q)
    ch.expect(BasicAck, delivery_tag=1)


def test_each_channel_counts_for_itself(scene: Scene, ch: Channel, q: str) -> None:
    beside = scene.beside()
    for channel in (ch, beside):
        channel.confirms()
        channel.publish("", q)
        channel.expect(BasicAck, delivery_tag=1)


def test_one_ack_for_many_queues(scene: Scene, ch: Channel) -> None:
    ch.exchange(scene.x, "fanout")
    queues = [ch.declare(exclusive=True) for _ in range(5)]
    for queue in queues:
        ch.bind(queue, scene.x)
    ch.confirms()
    ch.publish(scene.x, "")
    ch.expect(BasicAck, delivery_tag=1)
    ch.expect_nothing(*queues)
    assert [ch.depth(queue) for queue in queues] == [1] * 5


def test_a_consumed_message_is_confirmed(scene: Scene, ch: Channel, q: str) -> None:
    scene.beside().consume(q, no_ack=True)
    ch.confirms()
    ch.publish("", q, delivery_mode=2)
    ch.expect(BasicAck, delivery_tag=1)


def test_no_confirm_for_what_closes_the_channel(scene: Scene, ch: Channel) -> None:
    ch.confirms()
    ch.publish(scene.x, "k")
    ch.expect_close(scene.fill("channel 404 basic.publish NOT_FOUND - no {exchange}"))


def test_confirms_of_what_stood_before_an_error_come_first(scene: Scene, ch: Channel, q: str) -> None:
    ch.confirms()
    ch.publish("", q)
    ch.expect(BasicAck, delivery_tag=1)
    ch.publish(scene.x, "k")
    ch.refusal()


def test_numbers_begin_anew_on_a_channel_opened_again(ch: Channel, q: str) -> None:
    ch.confirms()
    ch.publish("", q)
    ch.expect(BasicAck, delivery_tag=1)
    ch.publish("nowhere", "")
    ch.refusal()
    ch.publish("", q)
    ch.expect_nothing(q)
    ch.confirms()
    ch.publish("", q)
    ch.expect(BasicAck, delivery_tag=1)


# ---------------------------------------------------------------------------------------------------------- nacks


def full(ch: Channel, overflow: str, **flags: bool) -> str:
    """A queue that holds one message, and does."""
    arguments = {"x-max-length": 1, "x-overflow": overflow}
    queue = ch.declare(arguments=arguments, exclusive=True, **flags)
    ch.publish("", queue)
    ch.settle(queue)
    return queue


@pytest.mark.parametrize(
    ("overflow", "outcome"), [("reject-publish", "nack"), ("reject-publish-dlx", "nack"), ("drop-head", "ack")]
)
def test_a_full_queue(ch: Channel, overflow: str, outcome: str) -> None:
    queue = full(ch, overflow)
    ch.confirms()
    ch.publish("", queue)
    assert ch.outcome() == outcome
    assert ch.depth(queue) == 1


def test_a_nack_is_multiple_and_requeue(ch: Channel) -> None:
    """Requeue means nothing to a publisher; it is what RabbitMQ's own default for the field comes to."""
    queue = full(ch, "reject-publish")
    ch.confirms()
    ch.publish("", queue)
    ch.expect(BasicNack, delivery_tag=1, multiple=True, requeue=True)


def test_one_full_queue_of_two_is_a_nack(scene: Scene, ch: Channel) -> None:
    """The other one has the message all the same."""
    full_one, other = full(ch, "reject-publish"), ch.declare(exclusive=True)
    ch.exchange(scene.x, "fanout")
    ch.bind(full_one, scene.x)
    ch.bind(other, scene.x)
    ch.confirms()
    ch.publish(scene.x, "")
    ch.expect(BasicNack, delivery_tag=1)
    ch.expect_nothing(full_one, other)
    assert (ch.depth(full_one), ch.depth(other)) == (1, 1)


def test_acks_after_a_nack_go_on_counting(ch: Channel, q: str) -> None:
    queue = full(ch, "reject-publish")
    ch.confirms()
    ch.publish("", queue)
    ch.expect(BasicNack, delivery_tag=1)
    ch.publish("", q)
    ch.expect(BasicAck, delivery_tag=2)


def test_mandatory_is_not_returned_by_a_full_queue(ch: Channel) -> None:
    queue = full(ch, "reject-publish")
    ch.confirms()
    ch.publish("", queue, mandatory=True)
    assert ch.outcome() == "nack"
    ch.expect_nothing(queue)
