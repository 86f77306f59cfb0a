"""Consumers: how messages are shared among them, how many at once, and how they end."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    QueueDelete,
    QueueDeleteOk,
)
from amqproxy.rabbitmq.profile import Profile
from tests.behaviours.client import CAPABILITIES, Channel, until
from tests.behaviours.scene import Scene

pytestmark = pytest.mark.real


def fill(ch: Channel, queue: str, count: int) -> list[bytes]:
    """Publish "0", "1", … and see that they are there."""
    bodies = [b"%d" % number for number in range(count)]
    for body in bodies:
        ch.publish("", queue, body)
    ch.settle(queue)
    return bodies


# ---------------------------------------------------------------------------------------------------------- in general


def test_consume_ok_comes_before_the_first_delivery(ch: Channel, q: str) -> None:
    fill(ch, q, 2)
    ch.send(BasicConsume(queue=q, consumer_tag="c"))
    ch.expect(BasicConsumeOk, consumer_tag="c")
    ch.expect(BasicDeliver, consumer_tag="c", delivery_tag=1, redelivered=False, exchange="", routing_key=q)
    ch.expect(BasicDeliver, consumer_tag="c", delivery_tag=2)


def test_server_given_tags(ch: Channel, q: str) -> None:
    tags = {ch.consume(q) for _ in range(3)}
    assert len(tags) == 3
    assert all(tag.startswith("amq.ctag-") and len(tag) == 31 for tag in tags)


def test_no_wait(ch: Channel, q: str) -> None:
    ch.send(BasicConsume(queue=q, consumer_tag="c", no_wait=True))
    ch.publish("", q)
    ch.expect(BasicDeliver, consumer_tag="c")
    ch.send(BasicCancel("c", no_wait=True))
    assert ch.peek(q).consumer_count == 0
    ch.expect_nothing()


def test_the_same_tag_on_two_channels(scene: Scene, ch: Channel, q: str) -> None:
    ch.consume(q, "c")
    scene.beside().consume(q, "c")


def test_a_tag_can_be_used_again(ch: Channel, q: str) -> None:
    ch.consume(q, "c")
    ch.cancel("c")
    ch.consume(q, "c")


def test_no_local_means_nothing(ch: Channel, q: str) -> None:
    ch.consume(q, no_local=True)
    ch.publish("", q, b"own")
    assert ch.bodies(1) == [b"own"]


def test_no_ack_leaves_nothing_behind(scene: Scene, ch: Channel, q: str) -> None:
    beside = scene.beside()
    fill(ch, q, 3)
    beside.consume(q, no_ack=True)
    beside.deliveries(3)
    beside.close()
    assert ch.drain(q) == []


def test_two_consumers_take_turns(ch: Channel, q: str) -> None:
    ch.consume(q, "a")
    ch.consume(q, "b")
    for _ in range(4):
        ch.publish("", q)
        ch.settle(q)
    tags = [each.method.consumer_tag for each in ch.deliveries(4)]
    assert tags in (["a", "b"] * 2, ["b", "a"] * 2)


def test_delivery_tags_count_over_all_consumers(ch: Channel, q: str) -> None:
    other = ch.declare(exclusive=True)
    ch.consume(q)
    ch.consume(other)
    for queue in (q, other, q):
        ch.publish("", queue)
        ch.settle(queue)
    assert [each.method.delivery_tag for each in ch.deliveries(3)] == [1, 2, 3]


# ------------------------------------------------------------------------------------------------------------- cancel


def test_cancel_is_answered_with_the_tag(ch: Channel, q: str) -> None:
    ch.consume(q, "c")
    ch.send(BasicCancel("c"))
    ch.expect(BasicCancelOk, consumer_tag="c")
    ch.publish("", q)
    ch.expect_nothing(q)
    assert ch.depth(q) == 1


def test_cancel_keeps_what_is_unacknowledged(ch: Channel, q: str) -> None:
    fill(ch, q, 1)
    ch.consume(q, "c")
    received = ch.expect(BasicDeliver)
    ch.cancel("c")
    assert ch.drain(q) == []
    ch.reject(received, requeue=True)
    assert ch.drain(q) == [b"0"]


def test_the_broker_cancels_when_the_queue_is_gone(scene: Scene, ch: Channel, q: str) -> None:
    beside = scene.beside()
    beside.consume(q, "c")
    ch.call(QueueDelete(queue=q))
    beside.expect(BasicCancel, consumer_tag="c", no_wait=True)


def test_the_client_that_deletes_the_queue_is_answered_first(ch: Channel, q: str) -> None:
    ch.consume(q, "c")
    ch.send(QueueDelete(queue=q))
    ch.expect(QueueDeleteOk)
    ch.expect(BasicCancel, consumer_tag="c", no_wait=True)


def test_the_broker_cancels_every_consumer(scene: Scene, ch: Channel, q: str) -> None:
    ch.consume(q, "a")
    ch.consume(q, "b")
    ch.send(QueueDelete(queue=q))
    tags = {ch.wait_for(BasicCancel).method.consumer_tag for _ in range(2)}
    assert tags == {"a", "b"}


def test_the_broker_sends_no_cancel_to_clients_without_the_capability(scene: Scene, ch: Channel) -> None:
    queue = ch.declare(scene.q)
    capabilities = {**CAPABILITIES, "consumer_cancel_notify": False}
    other = scene.channel(capabilities=capabilities)
    other.consume(queue)
    ch.call(QueueDelete(queue=queue))
    other.expect_nothing()


def test_the_broker_sends_no_cancel_to_a_consumer_that_cancelled(scene: Scene, ch: Channel) -> None:
    queue = ch.declare(scene.q, auto_delete=True)
    ch.cancel(ch.consume(queue))
    assert not ch.exists(queue)
    ch.expect_nothing()


def test_a_tag_is_free_after_the_broker_cancelled_it(scene: Scene, ch: Channel, q: str) -> None:
    ch.consume(q, "c")
    ch.call(QueueDelete(queue=q))
    ch.wait_for(BasicCancel)
    ch.consume(ch.declare(exclusive=True), "c")


# ---------------------------------------------------------------------------------------------------------- exclusive


def test_exclusive_is_over_with_its_consumer(scene: Scene, ch: Channel, q: str) -> None:
    beside = scene.beside()
    tag = beside.consume(q, exclusive=True)
    beside.cancel(tag)
    ch.consume(q)


def test_get_beside_an_exclusive_consumer(scene: Scene, ch: Channel, q: str) -> None:
    scene.beside().consume(q, exclusive=True)
    assert ch.get(q) is None


# ---------------------------------------------------------------------------------------------------------------- qos


@pytest.mark.parametrize("global_", [False, True], ids=["a consumer", "a channel"])
def test_no_more_than_the_prefetch_count(ch: Channel, q: str, global_: bool) -> None:
    fill(ch, q, 5)
    ch.qos(2, global_=global_)
    ch.consume(q)
    first, second = ch.deliveries(2)
    ch.expect_nothing(q)
    ch.ack(first)
    assert ch.bodies(1) == [b"2"]
    ch.expect_nothing(q)
    ch.ack(second)
    assert ch.bodies(1) == [b"3"]


def test_zero_is_no_limit(ch: Channel, q: str) -> None:
    fill(ch, q, 50)
    ch.qos(0)
    ch.consume(q)
    ch.deliveries(50)


def test_each_consumer_has_a_limit_of_its_own(ch: Channel, q: str) -> None:
    fill(ch, q, 5)
    ch.qos(1)
    ch.consume(q, "a")
    ch.consume(q, "b")
    assert {each.method.consumer_tag for each in ch.deliveries(2)} == {"a", "b"}
    ch.expect_nothing(q)


def test_a_limit_holds_for_consumers_made_later_only(ch: Channel, q: str) -> None:
    fill(ch, q, 6)
    ch.qos(1)
    ch.consume(q, "a")
    ch.deliveries(1)
    ch.qos(3)
    ch.expect_nothing(q)
    ch.consume(q, "b")
    assert [each.method.consumer_tag for each in ch.deliveries(3)] == ["b"] * 3
    ch.expect_nothing(q)


@pytest.mark.needs_feature("global_qos")
def test_a_channels_limit_is_shared(ch: Channel, q: str) -> None:
    fill(ch, q, 5)
    ch.qos(3, global_=True)
    ch.consume(q, "a")
    ch.consume(q, "b")
    ch.deliveries(3)
    ch.expect_nothing(q)


@pytest.mark.needs_feature("global_qos")
def test_a_channels_limit_holds_at_once(ch: Channel, q: str) -> None:
    fill(ch, q, 5)
    ch.qos(1, global_=True)
    ch.consume(q)
    ch.deliveries(1)
    ch.qos(2, global_=True)
    ch.deliveries(1)
    ch.expect_nothing(q)
    ch.qos(0, global_=True)
    ch.deliveries(3)


@pytest.mark.needs_feature("global_qos")
def test_both_limits_hold(ch: Channel, q: str) -> None:
    fill(ch, q, 9)
    ch.qos(2)
    ch.qos(3, global_=True)
    ch.consume(q, "a")
    ch.consume(q, "b")
    tags = [each.method.consumer_tag for each in ch.deliveries(3)]
    assert sorted((tags.count("a"), tags.count("b"))) == [1, 2]
    ch.expect_nothing(q)


def test_limits_do_not_hold_without_acknowledgements(ch: Channel, q: str) -> None:
    fill(ch, q, 5)
    ch.qos(1)
    ch.consume(q, no_ack=True)
    ch.deliveries(5)


def test_limits_do_not_hold_for_get(ch: Channel, q: str) -> None:
    fill(ch, q, 2)
    ch.qos(1, global_=True)
    assert ch.get(q, no_ack=False)
    assert ch.get(q, no_ack=False)


def test_what_was_got_does_not_count(ch: Channel, q: str) -> None:
    fill(ch, q, 3)
    ch.qos(1)
    assert ch.get(q, no_ack=False)
    ch.consume(q)
    ch.deliveries(1)
    ch.expect_nothing(q)


@pytest.mark.needs_feature("global_qos")
def test_cancel_with_unacknowledged_messages_keeps_a_channels_limit_used(ch: Channel, q: str) -> None:
    fill(ch, q, 3)
    ch.qos(1, global_=True)
    tag = ch.consume(q)
    received = ch.expect(BasicDeliver)
    ch.cancel(tag)
    ch.consume(q)
    ch.expect_nothing(q)
    ch.ack(received)
    ch.deliveries(1)


# --------------------------------------------------------------------------------------------------------- priorities


def test_higher_priority_goes_first(ch: Channel, q: str) -> None:
    ch.consume(q, "low", arguments={"x-priority": -1})
    ch.consume(q, "middle")
    ch.consume(q, "high", arguments={"x-priority": 5})
    for _ in range(3):
        ch.publish("", q)
    assert [each.method.consumer_tag for each in ch.deliveries(3)] == ["high"] * 3


def test_lower_priority_takes_what_the_higher_cannot(ch: Channel, q: str) -> None:
    ch.qos(1)
    ch.consume(q, "low")
    ch.consume(q, "high", arguments={"x-priority": 1})
    for _ in range(2):
        ch.publish("", q)
        ch.settle(q)
    assert [each.method.consumer_tag for each in ch.deliveries(2)] == ["high", "low"]


@pytest.mark.needs_feature("global_qos")
def test_a_channel_with_one_prefetch_for_all_lets_them_take_turns(ch: Channel, q: str) -> None:
    fill(ch, q, 7)
    ch.qos(1, global_=True)
    for tag in "ABC":
        ch.consume(q, tag)
    tags = ""
    for _ in range(7):
        received = ch.expect(BasicDeliver)
        tags += received.method.consumer_tag
        ch.ack(received)
    assert tags == "AABCABC"


# ---------------------------------------------------------------------------------------------- single active consumer


def single(ch: Channel) -> str:
    return ch.declare(exclusive=True, arguments={"x-single-active-consumer": True})


def test_only_the_first_consumer_is_active(ch: Channel) -> None:
    queue = single(ch)
    ch.consume(queue, "a")
    ch.consume(queue, "b")
    fill(ch, queue, 4)
    assert [each.method.consumer_tag for each in ch.deliveries(4)] == ["a"] * 4
    ch.expect_nothing(queue)


def test_the_next_becomes_active_when_the_first_is_cancelled(ch: Channel) -> None:
    queue = single(ch)
    for tag in "abc":
        ch.consume(queue, tag)
    fill(ch, queue, 1)
    ch.expect(BasicDeliver, consumer_tag="a")
    ch.cancel("a")
    fill(ch, queue, 2)
    assert [each.method.consumer_tag for each in ch.deliveries(2)] == ["b", "b"]


@pytest.mark.unsupported_on_rabbitmq("the queue stalls for good, and its process crashes at the next publish")
def test_the_next_one_goes_on_once_all_of_that_is_acknowledged(ch: Channel, profile: Profile) -> None:
    if not profile.successor_waits:
        pytest.skip("in this version, the next one does not wait")
    queue = single(ch)
    ch.qos(1)
    for tag in "abc":
        ch.consume(queue, tag)
    fill(ch, queue, 3)
    received = ch.expect(BasicDeliver, consumer_tag="a")
    ch.cancel("a")
    ch.expect_nothing(queue)
    ch.ack(received)
    ch.expect(BasicDeliver, consumer_tag="b")
    ch.expect_nothing(queue)


def test_priority_does_not_depose_the_active_one(ch: Channel) -> None:
    """In RabbitMQ 3.10, for classic queues."""
    queue = single(ch)
    ch.consume(queue, "a")
    ch.consume(queue, "b", arguments={"x-priority": 9})
    fill(ch, queue, 1)
    ch.expect(BasicDeliver, consumer_tag="a")


def test_the_next_becomes_active_when_the_connection_of_the_first_is_gone(scene: Scene, ch: Channel) -> None:
    queue = ch.declare(scene.q, arguments={"x-single-active-consumer": True}, auto_delete=True)
    other = scene.channel()
    other.consume(queue, "a")
    ch.consume(queue, "b")
    fill(ch, queue, 1)
    other.expect(BasicDeliver, consumer_tag="a")
    other.client.abandon()
    ch.expect(BasicDeliver, consumer_tag="b", redelivered=True)
    until(lambda: ch.peek(queue).consumer_count == 1, "the consumer to be gone")


def handed_over(scene: Scene, ch: Channel, queue: str) -> Channel:
    """The channel of the next consumer: the active one has been cancelled, and has not settled two of four messages."""
    other = scene.beside()
    fill(ch, queue, 4)
    ch.qos(2)
    ch.consume(queue, "first")
    other.consume(queue, "second")
    assert ch.bodies(2) == [b"0", b"1"]
    ch.cancel("first")
    return other


def test_the_next_one_waits_for_what_the_one_before_it_holds(scene: Scene, ch: Channel) -> None:
    """Up to 3.10; later versions deliver to it at once."""
    queue = single(ch)
    other = handed_over(scene, ch, queue)
    if not scene.profile.successor_waits:
        assert other.bodies(2) == [b"2", b"3"]
        return
    other.expect_nothing(queue)
    ch.nack(1, requeue=True)
    assert other.bodies(3) == [b"0", b"2", b"3"]


def test_what_comes_back_comes_first(scene: Scene) -> None:
    ch = scene.beside()
    queue = single(ch)
    other = handed_over(scene, ch, queue)
    ch.close()
    came_first = [b"0", b"1"] if scene.profile.successor_waits else []
    assert other.bodies(4) == [*came_first, b"2", b"3", *([] if came_first else [b"0", b"1"])]


def test_a_further_consumer_ends_the_wait(scene: Scene, ch: Channel) -> None:
    queue = single(ch)
    other = handed_over(scene, ch, queue)
    scene.beside().consume(queue, "third")
    assert other.bodies(2) == [b"2", b"3"]
