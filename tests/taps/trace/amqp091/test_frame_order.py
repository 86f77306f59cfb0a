"""Frames that are seen before what they answer."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.taps.trace.events import (
    ChannelClosed,
    ChannelOpened,
    DeliveriesSettled,
    HistoryLost,
    MessageDelivered,
    MessagePublished,
    PublishesSettled,
    RequestAnswered,
    RequestUnanswered,
    Settlement,
)
from tests.taps.trace.traced import Traced

UNKNOWN_TAG = ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 1", 60, 80)


def consuming(**options: Any) -> Traced:
    traced = Traced(1, is_ordered=False, **options)
    traced.client(BasicConsume(queue="q", consumer_tag="c"))
    traced.server(BasicConsumeOk("c"))
    traced.events.clear()
    return traced


def test_an_ack_before_its_delivery_settles_it_when_that_comes() -> None:
    traced = consuming()
    assert traced.client(BasicAck(1)) == []
    delivered, acked = traced.server(BasicDeliver("c", 1, exchange="e", routing_key="k"), body=b"x")
    assert isinstance(delivered, MessageDelivered)
    assert isinstance(acked, DeliveriesSettled)
    assert (acked.outcome, acked.is_unknown_tag, acked.ts_ns) == (Settlement.ACKED, False, delivered.ts_ns)


def test_an_ack_whose_delivery_never_comes_is_unknown_when_the_broker_refuses_it() -> None:
    traced = consuming()
    traced.client(BasicAck(1))
    settled, closed = traced.server(UNKNOWN_TAG)
    assert isinstance(settled, DeliveriesSettled)
    assert settled.is_unknown_tag
    assert isinstance(closed, ChannelClosed)
    assert closed.cause == BasicAck(1)


def test_an_ack_whose_delivery_never_comes_is_unknown_when_the_channel_ends() -> None:
    traced = consuming()
    traced.client(BasicAck(1))
    settled, closed = traced.server(ChannelClose(541, "INTERNAL_ERROR"))
    assert isinstance(settled, DeliveriesSettled)
    assert settled.is_unknown_tag
    assert isinstance(closed, ChannelClosed)


def test_an_ack_whose_delivery_never_comes_is_unknown_at_the_end() -> None:
    traced = consuming()
    traced.client(BasicAck(1))
    traced.end()
    assert [each.is_unknown_tag for each in traced.of(DeliveriesSettled)] == [True]


def test_a_second_ack_is_unknown_at_once() -> None:
    traced = consuming()
    traced.server(BasicDeliver("c", 1, exchange="e", routing_key="k"), body=b"x")
    traced.client(BasicAck(1), BasicAck(1))
    assert [each.is_unknown_tag for each in traced.of(DeliveriesSettled)] == [False, True]


def test_a_refusal_that_is_seen_before_the_ack_waits_for_it() -> None:
    traced = consuming()
    assert traced.server(UNKNOWN_TAG) == []
    settled, closed = traced.client(BasicAck(1))
    assert isinstance(settled, DeliveriesSettled)
    assert settled.is_unknown_tag
    assert isinstance(closed, ChannelClosed)
    assert closed.cause == BasicAck(1)


def test_a_confirm_before_its_publish_settles_it_when_that_comes() -> None:
    traced = Traced(1, is_ordered=False)
    traced.client(ConfirmSelect())
    traced.server(ConfirmSelectOk())
    traced.events.clear()
    assert traced.server(BasicAck(1)) == []
    published, confirmed = traced.client(BasicPublish(exchange="e"), body=b"x")
    assert isinstance(published, MessagePublished)
    assert isinstance(confirmed, PublishesSettled)
    assert (confirmed.outcome, confirmed.is_unknown_tag) == (Settlement.CONFIRMED, False)
    assert [each.count for each in confirmed.spans] == [1]


def test_a_confirm_whose_publish_never_comes_is_unknown_at_the_end() -> None:
    traced = Traced(1, is_ordered=False)
    traced.client(ConfirmSelect())
    traced.server(ConfirmSelectOk(), BasicAck(1))
    traced.end()
    assert [each.is_unknown_tag for each in traced.of(PublishesSettled)] == [True]


def test_a_reply_before_its_request() -> None:
    traced = Traced(1, is_ordered=False)
    assert traced.server(QueueDeclareOk("q", 0, 0)) == []
    (answered,) = traced.client(QueueDeclare(queue="q"))
    assert isinstance(answered, RequestAnswered)
    assert (answered.request, answered.latency_ns) == (QueueDeclare(queue="q"), 0)


def test_a_close_ok_before_its_close() -> None:
    traced = Traced(1, is_ordered=False)
    assert traced.server(ChannelCloseOk()) == []
    (closed,) = traced.client(ChannelClose(200, "bye"))
    assert isinstance(closed, ChannelClosed)
    assert traced.trace.channels == {}


def test_a_channel_that_the_broker_was_seen_to_use_before_it_was_opened() -> None:
    traced = Traced(is_ordered=False)
    assert traced.server(ChannelOpenOk(), QueueDeclareOk("q", 0, 0)) == []
    (opened,) = traced.client(ChannelOpen())
    assert isinstance(opened, ChannelOpened)
    assert len(traced.client(QueueDeclare(queue="q"))) == 1
    assert traced.of(HistoryLost) == []


def test_what_the_client_sent_before_it_closed_the_connection_is_not_late() -> None:
    traced = consuming()
    traced.client(BasicAck(1))
    traced.client(ConnectionClose(200, "bye"), channel=0)
    traced.server(BasicDeliver("c", 1, exchange="e", routing_key="k"), body=b"x")
    traced.server(ConnectionCloseOk(), channel=0)
    assert [each.outcome for each in traced.of(DeliveriesSettled)] == [Settlement.ACKED]


def test_nothing_that_was_held_is_claimed_to_be_unknown_after_a_gap() -> None:
    traced = consuming()
    traced.client(BasicAck(1))
    traced.gap()
    assert [each.is_unknown_tag for each in traced.of(DeliveriesSettled)] == [None]


def test_beyond_the_memory_nothing_is_held_and_nothing_is_claimed() -> None:
    traced = consuming(max_memory=4096)
    traced.client(*(BasicAck(tag) for tag in range(1, 30)))
    lost = traced.of(HistoryLost)
    assert [each.reason for each in lost] == ["too many frames were seen before what they answer"]
    assert not any(each.is_unknown_tag for each in traced.of(DeliveriesSettled))


def test_what_is_held_for_an_unknown_tag_does_not_hold_up_the_connection() -> None:
    traced = consuming()
    traced.client(BasicAck(9), QueueDeclare(queue="q"))
    traced.server(QueueDeclareOk("q", 0, 0))
    assert [each.is_unknown_tag for each in traced.of(DeliveriesSettled)] == [True]
    assert [each.request for each in traced.of(RequestAnswered)] == [QueueDeclare(queue="q")]
    assert traced.of(RequestUnanswered) == []
