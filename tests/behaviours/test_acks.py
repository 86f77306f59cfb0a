"""Acknowledging: one or many, giving back, and in which order what was given back comes again."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicRecover, BasicRecoverAsync
from tests.behaviours.client import Channel, Received, until
from tests.behaviours.scene import Scene

pytestmark = pytest.mark.real


def held(ch: Channel, queue: str, count: int) -> list[Received]:
    """Messages "0", "1", …, published, got and not acknowledged."""
    received = []
    for number in range(count):
        ch.publish("", queue, b"%d" % number)
        message = ch.get(queue, no_ack=False)
        assert message
        received.append(message)
    return received


def ready(ch: Channel, queue: str) -> list[tuple[bytes, bool]]:
    """What is in the queue, in order: bodies, and whether they are marked as redelivered."""
    messages = []
    while received := ch.get(queue):
        messages.append((received.body, received.method.redelivered))
    return messages


def unacked(scene: Scene, ch: Channel, queue: str) -> list[bytes]:
    """What the channel still held, as seen when it closes."""
    ch.close()
    return scene.beside().drain(queue)


# --------------------------------------------------------------------------------------------------------------- ack


@pytest.mark.parametrize(
    ("acks", "left"),
    [
        ([(1, False)], [b"1", b"2", b"3"]),
        ([(3, False)], [b"0", b"1", b"3"]),
        ([(3, True)], [b"3"]),
        ([(4, True)], []),
        ([(0, True)], []),
        ([(2, False), (4, True)], []),
        ([(3, True), (4, False)], []),
        ([(1, False), (2, False), (4, False)], [b"2"]),
    ],
    ids=str,
)
def test_ack(scene: Scene, q: str, acks: list[tuple[int, bool]], left: list[bytes]) -> None:
    beside = scene.beside()
    held(beside, q, 4)
    for tag, multiple in acks:
        beside.ack(tag, multiple=multiple)
    beside.settle(q)
    assert unacked(scene, beside, q) == left


def test_multiple_takes_only_what_was_delivered_before(ch: Channel, q: str) -> None:
    held(ch, q, 2)
    ch.ack(2, multiple=True)
    ch.ack(2, multiple=False)
    ch.expect_close("channel 406 basic.ack PRECONDITION_FAILED - unknown delivery tag 2")


def test_acks_over_several_queues(ch: Channel) -> None:
    queues = [ch.declare(exclusive=True) for _ in range(3)]
    for queue in queues:
        held(ch, queue, 1)
    ch.ack(3, multiple=True)
    ch.expect_nothing(*queues)
    ch.close()


# --------------------------------------------------------------------------------------------------- reject and nack


def test_reject_drops(ch: Channel, q: str) -> None:
    (message,) = held(ch, q, 1)
    ch.reject(message, requeue=False)
    assert ready(ch, q) == []


def test_reject_requeues(ch: Channel, q: str) -> None:
    (message,) = held(ch, q, 1)
    ch.reject(message, requeue=True)
    assert ready(ch, q) == [(b"0", True)]


@pytest.mark.parametrize("requeue", [True, False])
@pytest.mark.parametrize("tag", [2, 0], ids=["up to", "all"])
def test_nack_multiple(ch: Channel, q: str, tag: int, requeue: bool) -> None:
    held(ch, q, 2)
    ch.nack(tag, multiple=True, requeue=requeue)
    assert ready(ch, q) == ([(b"0", True), (b"1", True)] if requeue else [])


def test_a_place_in_the_queue_is_kept(ch: Channel, q: str) -> None:
    for number in range(4):
        ch.publish("", q, b"%d" % number)
    first, second = ch.get(q, no_ack=False), ch.get(q, no_ack=False)
    assert first
    assert second
    ch.reject(second, requeue=True)
    ch.reject(first, requeue=True)
    assert ready(ch, q) == [(b"0", True), (b"1", True), (b"2", False), (b"3", False)]


def test_what_goes_back_behind_the_head_keeps_its_place_too(ch: Channel, q: str) -> None:
    messages = held(ch, q, 3)
    ch.reject(messages[2], requeue=True)
    ch.reject(messages[0], requeue=True)
    assert ready(ch, q) == [(b"0", True), (b"2", True)]


def test_a_requeued_message_comes_again_to_the_same_consumer(ch: Channel, q: str) -> None:
    ch.consume(q)
    ch.publish("", q)
    (message,) = ch.deliveries(1)
    ch.reject(message, requeue=True)
    (again,) = ch.deliveries(1)
    assert (again.method.redelivered, again.method.delivery_tag) == (True, 2)


def test_redelivered_stays(ch: Channel, q: str) -> None:
    """The mark does not count: it only shows that there was an earlier delivery."""
    (message,) = held(ch, q, 1)
    for _ in range(2):
        ch.reject(message, requeue=True)
        again = ch.get(q, no_ack=False)
        assert again
        assert again.method.redelivered
        message = again


def test_a_lost_connection_requeues(scene: Scene, ch: Channel) -> None:
    queue = ch.declare(scene.q, durable=True)
    other = scene.channel()
    held(other, queue, 3)
    other.ack(2)
    other.settle(queue)
    other.client.abandon()
    until(lambda: ch.depth(queue) == 2, "the messages to be back")
    assert ready(ch, queue) == [(b"0", True), (b"2", True)]


# ------------------------------------------------------------------------------------------------------------ recover


def test_recover_requeues_all(ch: Channel, q: str) -> None:
    held(ch, q, 3)
    ch.ack(2)
    ch.call(BasicRecover(True))
    assert ready(ch, q) == [(b"0", True), (b"2", True)]


def test_recover_delivers_again(ch: Channel, q: str) -> None:
    ch.consume(q)
    ch.publish("", q, b"x")
    ch.deliveries(1)
    ch.call(BasicRecover(True))
    (again,) = ch.deliveries(1)
    assert (again.body, again.method.redelivered) == (b"x", True)


def test_recover_async_is_not_answered(ch: Channel, q: str) -> None:
    held(ch, q, 2)
    ch.send(BasicRecoverAsync(True))
    assert ready(ch, q) == [(b"0", True), (b"1", True)]
    ch.expect_nothing()


def test_recover_of_nothing(ch: Channel) -> None:
    ch.call(BasicRecover(True))


def test_old_tags_are_unknown_after_recover(ch: Channel, q: str) -> None:
    held(ch, q, 1)
    ch.call(BasicRecover(True))
    ch.ack(1)
    ch.expect_close("channel 406 basic.ack PRECONDITION_FAILED - unknown delivery tag 1")


def test_a_channel_recovers_only_its_own(scene: Scene, ch: Channel, q: str) -> None:
    held(ch, q, 1)
    scene.beside().call(BasicRecover(True))
    assert ready(ch, q) == []
