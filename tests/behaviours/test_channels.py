"""Opening and closing channels, and what belongs to one channel alone."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import (
    AccessRequest,
    BasicAck,
    BasicGet,
    BasicGetOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelOpen,
    ChannelOpenOk,
    QueueDeclare,
    TxSelect,
)
from tests.behaviours.client import Channel, Closed
from tests.behaviours.scene import Scene

pytestmark = pytest.mark.real


def test_a_number_can_be_used_again(ch: Channel) -> None:
    ch.close()
    ch.call(ChannelOpen())
    ch.expect_nothing()


def test_a_channel_may_be_used_in_the_write_that_opens_it(scene: Scene, ch: Channel, q: str) -> None:
    """Nothing that is sent on it has to wait for open-ok."""
    client = ch.client
    second = Channel(client, ch.number + 50)
    with client.one_write():
        second.send(ChannelOpen())
        second.publish("", q, b"first")
        second.publish("", q, b"second")
        second.send(BasicGet(queue=q))
    second.expect(ChannelOpenOk)
    assert second.expect(BasicGetOk).body == b"first"
    assert ch.depth(q) == 1
    third = Channel(client, ch.number + 51)
    with client.one_write():
        third.send(ChannelOpen())
        third.send(BasicAck(7))
    third.expect(ChannelOpenOk)
    third.expect_close("channel 406 basic.ack PRECONDITION_FAILED - unknown delivery tag 7")


def test_a_number_can_be_used_again_after_an_error(ch: Channel) -> None:
    ch.send(QueueDeclare(queue="nil", passive=True))
    ch.expect_close("channel 404 queue.declare NOT_FOUND - no queue 'nil' in vhost 'behaviours'")
    ch.expect_nothing()


def test_a_number_cannot_be_used_again_before_close_ok(scene: Scene) -> None:
    """Of what follows its own channel.close, the broker ignores all but channel.open, which ends the connection."""
    ch = scene.beside()
    with ch.client.one_write():
        ch.send(QueueDeclare(queue="nil", passive=True))
        ch.send(BasicAck(7))
        ch.send(ChannelOpen())
    closed = ch.next().method
    assert isinstance(closed, ChannelClose)
    assert closed.reply_code == 404
    with pytest.raises(Closed, match=r"504 channel\.open CHANNEL_ERROR - second 'channel\.open' seen"):
        ch.next()


def test_an_error_leaves_the_other_channels_alone(scene: Scene, ch: Channel) -> None:
    beside = scene.beside()
    ch.send(BasicAck(7))
    ch.refusal()
    beside.expect_nothing()


def test_what_stands_behind_an_error_is_ignored(scene: Scene, ch: Channel) -> None:
    """Until close-ok, all that the client sends on the channel counts no more."""
    queue = scene.q
    ch.send(BasicAck(7))
    ch.send(QueueDeclare(queue=queue, exclusive=True))
    ch.refusal()
    assert not ch.exists(queue)


def test_what_stood_before_an_error_is_done(scene: Scene, ch: Channel) -> None:
    queue = ch.declare(exclusive=True)
    ch.publish("", queue)
    ch.send(BasicAck(7))
    ch.refusal()
    assert ch.depth(queue) == 1


def test_close_requeues_what_was_not_acknowledged(scene: Scene, ch: Channel, q: str) -> None:
    beside = scene.beside()
    for body in (b"1", b"2", b"3"):
        ch.publish("", q, body)
    ch.settle(q)
    beside.get(q, no_ack=False)
    beside.get(q, no_ack=False)
    beside.close()
    received = [ch.get(q), ch.get(q), ch.get(q)]
    assert [(each.body, each.method.redelivered) for each in received if each] == [
        (b"1", True),
        (b"2", True),
        (b"3", False),
    ]


def test_close_ends_consumers(scene: Scene, ch: Channel, q: str) -> None:
    beside = scene.beside()
    beside.consume(q)
    assert ch.peek(q).consumer_count == 1
    beside.close()
    assert ch.peek(q).consumer_count == 0


def test_close_keeps_exclusive_queues(scene: Scene, ch: Channel) -> None:
    queue = ch.declare(exclusive=True)
    ch.close()
    assert scene.beside().exists(queue)


def test_delivery_tags_begin_at_one_on_each_channel(scene: Scene, ch: Channel, q: str) -> None:
    beside = scene.beside()
    tags = []
    for channel in (ch, ch, beside):
        ch.publish("", q)
        ch.settle(q)
        received = channel.get(q, no_ack=False)
        assert received
        tags.append(received.method.delivery_tag)
    assert tags == [1, 2, 1]


def test_delivery_tags_begin_anew_when_a_number_is_used_again(ch: Channel, q: str) -> None:
    for _ in range(2):
        ch.publish("", q)
        received = ch.get(q)
        assert received
        assert received.method.delivery_tag == 1
        ch.close()
        ch.call(ChannelOpen())


def test_a_tag_of_another_channel_is_unknown(scene: Scene, ch: Channel, q: str) -> None:
    ch.publish("", q)
    assert ch.get(q, no_ack=False)
    beside = scene.beside()
    beside.ack(1)
    beside.expect_close("channel 406 basic.ack PRECONDITION_FAILED - unknown delivery tag 1")


def test_confirms_and_transactions_belong_to_one_channel(scene: Scene, ch: Channel) -> None:
    ch.confirms()
    scene.beside().call(TxSelect())


def test_a_mode_does_not_outlive_its_channel(ch: Channel) -> None:
    ch.confirms()
    ch.close()
    ch.call(ChannelOpen())
    ch.call(TxSelect())


def test_both_sides_may_close_at_once(ch: Channel) -> None:
    """The client's close, sent before it saw the broker's, is answered too; its close-ok ends it."""
    ch.send(BasicAck(7))
    ch.send(ChannelClose(200, "bye"))
    ch.expect(ChannelClose, reply_code=406)
    ch.expect(ChannelCloseOk)
    ch.call(ChannelOpen())
    ch.expect_nothing()


def test_flow_on_is_answered(ch: Channel) -> None:
    assert ch.call(ChannelFlow(True)).active is True


def test_access_is_granted_to_all(ch: Channel) -> None:
    assert ch.call(AccessRequest("/data", active=True)).reserved_1 == 1


def test_highest_number(scene: Scene) -> None:
    scene.client().channel(65535).expect_nothing()


def test_the_close_names_the_method_at_fault(ch: Channel) -> None:
    with pytest.raises(Closed) as closed:
        ch.call(QueueDeclare(queue="nil", passive=True))
    method = closed.value.method
    assert (method.failing_class_id, method.failing_method_id) == (50, 10)


def test_answers_keep_the_order_of_the_questions(scene: Scene, ch: Channel, q: str) -> None:
    for number in range(20):
        ch.publish("", q, b"%d" % number)
        ch.send(BasicGet(queue=q, no_ack=True))
    assert [ch.next().body for _ in range(20)] == [b"%d" % number for number in range(20)]
