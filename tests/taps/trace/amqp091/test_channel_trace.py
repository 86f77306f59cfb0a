"""What happens on a channel, as the trace reports it."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.frame import BODY, Frame, encode_frame
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.amqp091.wire import Table
from amqproxy.taps.trace.events import (
    ChannelClosed,
    DeliveriesSettled,
    FlowChanged,
    HistoryLost,
    MessageDelivered,
    MessagePublished,
    MessageReturned,
    PublishesSettled,
    RequestAnswered,
    RequestSent,
    RequestUnanswered,
    Settlement,
)
from tests.taps.trace.traced import Traced, frames_of

MS = 1_000_000


def spans(event: Any) -> list[tuple[int, int, float]]:
    """First, last, and milliseconds since."""
    return [(each.first, each.last, (event.ts_ns - each.ts_ns) / MS) for each in event.spans]


def confirming(**options: Any) -> Traced:
    traced = Traced(1, **options)
    traced.client(ConfirmSelect())
    traced.server(ConfirmSelectOk())
    traced.events.clear()
    return traced


def consuming(*, no_ack: bool = False, **options: Any) -> Traced:
    traced = Traced(1, **options)
    traced.client(BasicConsume(queue="q", consumer_tag="c", no_ack=no_ack))
    traced.server(BasicConsumeOk("c"))
    traced.events.clear()
    return traced


def deliver(*tags: int, consumer_tag: str = "c") -> list[BasicDeliver]:
    return [BasicDeliver(consumer_tag=consumer_tag, delivery_tag=tag, exchange="e", routing_key="k") for tag in tags]


# --- publishes


def test_a_publish_outside_of_any_mode_awaits_nothing() -> None:
    traced = Traced(1, body=3)
    (event,) = traced.client(
        BasicPublish(exchange="e", routing_key="k"), properties=Properties(type="t"), body=b"hello"
    )
    assert event == MessagePublished(
        ts_ns=traced.ts_ns,
        channel=1,
        epoch=1,
        number=1,
        method=BasicPublish(exchange="e", routing_key="k"),
        properties=Properties(type="t"),
        size=5,
        body=b"hel",
        awaits=False,
    )


def test_a_publish_is_complete_with_its_last_body_frame() -> None:
    traced = Traced(1, body=1500)
    (event,) = traced.client(BasicPublish(), body=b"x" * 2500)
    assert isinstance(event, MessagePublished)
    assert (event.size, len(event.body)) == (2500, 1500)


def test_confirms_of_several_reads_have_the_latency_of_each() -> None:
    traced = confirming()
    traced.client(BasicPublish(), BasicPublish())
    traced.client(BasicPublish())
    traced.client(BasicPublish())
    (event,) = traced.server(BasicAck(delivery_tag=3, multiple=True))
    assert isinstance(event, PublishesSettled)
    assert event.outcome is Settlement.CONFIRMED
    assert spans(event) == [(1, 2, 3.0), (3, 3, 2.0)]
    (nack,) = traced.server(BasicNack(delivery_tag=4))
    assert isinstance(nack, PublishesSettled)
    assert (nack.outcome, spans(nack)) == (Settlement.NACKED, [(4, 4, 2.0)])


def test_publishes_before_confirm_select_have_no_confirm_tag() -> None:
    traced = Traced(1)
    traced.client(BasicPublish())
    traced.client(ConfirmSelect(), BasicPublish())
    assert [(each.number, each.confirm_tag, each.awaits) for each in traced.of(MessagePublished)] == [
        (1, None, False),
        (2, 1, True),
    ]
    (event,) = traced.server(BasicAck(delivery_tag=1))
    assert isinstance(event, PublishesSettled)
    assert spans(event) == [(2, 2, 1.0)]


def test_a_confirm_of_no_open_publish_is_an_unknown_tag() -> None:
    traced = confirming()
    (event,) = traced.server(BasicAck(delivery_tag=1))
    assert event == PublishesSettled(
        ts_ns=traced.ts_ns, channel=1, epoch=1, outcome=Settlement.CONFIRMED, spans=(), is_unknown_tag=True
    )


def test_a_confirm_of_all_there_are() -> None:
    traced = confirming()
    traced.client(BasicPublish(), BasicPublish())
    (event,) = traced.server(BasicAck(delivery_tag=0, multiple=True))
    assert isinstance(event, PublishesSettled)
    assert spans(event) == [(1, 2, 1.0)]


def test_a_returned_publish_is_known_by_what_it_holds() -> None:
    traced = confirming()
    for key in ("a", "b", "b"):
        traced.client(BasicPublish(exchange="e", routing_key=key, mandatory=True), body=b"x")
    for key in ("a", "b"):
        traced.server(BasicReturn(312, "NO_ROUTE", "e", key), body=b"x")
    traced.server(BasicAck(delivery_tag=2, multiple=True))
    traced.server(BasicReturn(312, "NO_ROUTE", "e", "b"), body=b"x")
    assert [each.number for each in traced.of(MessageReturned)] == [1, None, 3]


def test_transactions() -> None:
    traced = Traced(1)
    traced.client(BasicPublish())
    traced.client(TxSelect())
    traced.server(TxSelectOk())
    traced.client(BasicPublish(), BasicPublish())
    traced.client(TxCommit(), BasicPublish())
    traced.server(TxCommitOk())
    traced.client(TxRollback())
    traced.server(TxRollbackOk())
    assert [(each.outcome, spans(each)) for each in traced.of(PublishesSettled)] == [
        (Settlement.COMMITTED, [(2, 3, 2.0)]),
        (Settlement.ROLLED_BACK, [(4, 4, 3.0)]),
    ]


def test_what_is_acked_in_a_transaction_is_settled_by_its_commit() -> None:
    traced = consuming()
    traced.client(TxSelect())
    traced.server(TxSelectOk())
    traced.server(*deliver(1, 2, 3))
    assert traced.client(BasicAck(delivery_tag=1)) == []
    traced.client(TxRollback())
    traced.server(TxRollbackOk())
    assert traced.of(DeliveriesSettled) == []
    traced.client(BasicAck(delivery_tag=2, multiple=True), TxCommit())
    traced.server(TxCommitOk())
    (event,) = traced.of(DeliveriesSettled)
    assert (event.outcome, spans(event), event.ts_ns) == (
        Settlement.ACKED,
        [(1, 1, 5.0), (2, 2, 5.0)],
        traced.ts_ns,
    )


# --- deliveries


def test_deliveries_and_what_becomes_of_them() -> None:
    traced = consuming()
    traced.server(*deliver(1, 2, 3))
    traced.server(*deliver(4, 5))
    assert {(each.queue, each.awaits) for each in traced.of(MessageDelivered)} == {("q", True)}
    traced.client(BasicAck(delivery_tag=2))
    traced.client(BasicReject(delivery_tag=1, requeue=True))
    traced.client(BasicNack(delivery_tag=4, multiple=True, requeue=False))
    assert [(each.outcome, spans(each), each.requeue) for each in traced.of(DeliveriesSettled)] == [
        (Settlement.ACKED, [(2, 2, 2.0)], False),
        (Settlement.REJECTED, [(1, 1, 3.0)], True),
        (Settlement.NACKED, [(3, 3, 4.0), (4, 4, 3.0)], False),
    ]
    (event,) = traced.client(BasicAck(delivery_tag=2))
    assert isinstance(event, DeliveriesSettled)
    assert (event.spans, event.is_unknown_tag) == ((), True)
    assert traced.trace.channels[1].unacked == 1


def test_an_ack_of_all_there_are() -> None:
    traced = consuming()
    traced.server(*deliver(1, 2))
    (event,) = traced.client(BasicAck(delivery_tag=0, multiple=True))
    assert isinstance(event, DeliveriesSettled)
    assert spans(event) == [(1, 2, 1.0)]
    (again,) = traced.client(BasicAck(delivery_tag=0, multiple=True))
    assert isinstance(again, DeliveriesSettled)
    assert (again.spans, again.is_unknown_tag) == ((), False)


def test_a_consumer_without_acknowledgements_awaits_none() -> None:
    traced = consuming(no_ack=True)
    (event,) = traced.server(*deliver(1))
    assert isinstance(event, MessageDelivered)
    assert event.awaits is False
    assert traced.trace.channels[1].unacked == 0


def test_a_get_is_a_request_and_a_delivery() -> None:
    traced = Traced(1)
    traced.client(BasicGet(queue="q"))
    answered, delivered = traced.server(BasicGetOk(1, False, "e", "k", 0), body=b"x")
    assert isinstance(answered, RequestAnswered)
    assert isinstance(delivered, MessageDelivered)
    assert (delivered.queue, delivered.awaits, delivered.latency_ns) == ("q", True, MS)
    traced.client(BasicGet(queue="q", no_ack=True))
    (empty,) = traced.server(BasicGetEmpty())
    assert isinstance(empty, RequestAnswered)
    assert empty.request == BasicGet(queue="q", no_ack=True)


def test_the_last_declared_queue_is_the_one_without_a_name() -> None:
    traced = Traced(1)
    traced.client(QueueDeclare())
    traced.server(QueueDeclareOk("amq.gen-1", 0, 0))
    traced.client(BasicConsume(consumer_tag="c", no_wait=True))
    (event,) = traced.server(*deliver(1))
    assert isinstance(event, MessageDelivered)
    assert event.queue == "amq.gen-1"
    assert traced.of(RequestSent)[0].request == BasicConsume(consumer_tag="c", no_wait=True)


def test_recover_gives_all_back() -> None:
    traced = consuming()
    traced.server(*deliver(1, 2))
    traced.client(BasicRecover(requeue=True))
    traced.server(BasicRecoverOk())
    (event,) = traced.of(DeliveriesSettled)
    assert (event.outcome, spans(event), event.requeue) == (Settlement.RECOVERED, [(1, 2, 2.0)], True)


def test_deliveries_of_a_cancelled_consumer_are_still_to_be_acked() -> None:
    traced = consuming()
    traced.server(*deliver(1))
    traced.client(BasicCancel("c"))
    traced.server(BasicCancelOk("c"))
    (event,) = traced.client(BasicAck(delivery_tag=1))
    assert isinstance(event, DeliveriesSettled)
    assert spans(event) == [(1, 1, 3.0)]


# --- requests


def test_a_request_has_its_reply_and_latency() -> None:
    traced = Traced(1)
    traced.client(BasicQos(prefetch_count=3), QueueDeclare(queue="q"))
    traced.server(BasicQosOk())
    traced.server(QueueDeclareOk("q", 0, 0))
    assert [(each.request, each.latency_ns) for each in traced.of(RequestAnswered)] == [
        (BasicQos(prefetch_count=3), MS),
        (QueueDeclare(queue="q"), 2 * MS),
    ]


def test_consumers_are_answered_by_their_tags() -> None:
    traced = Traced(1)
    traced.client(BasicConsume(queue="a", consumer_tag="1"), BasicConsume(queue="b", consumer_tag="2"))
    traced.server(BasicConsumeOk("2"))
    traced.server(BasicConsumeOk("1"))
    requests = [each.request for each in traced.of(RequestAnswered)]
    assert [each.queue for each in requests if isinstance(each, BasicConsume)] == ["b", "a"]


def test_flow() -> None:
    traced = Traced(1)
    (event,) = traced.server(ChannelFlow(False))
    assert event == FlowChanged(ts_ns=traced.ts_ns, channel=1, epoch=1, sender=SERVER, is_active=False)


# --- the end of a channel


def test_what_is_open_when_a_channel_ends() -> None:
    traced = confirming()
    traced.client(BasicConsume(queue="q", consumer_tag="c"))
    traced.server(BasicConsumeOk("c"))
    traced.client(BasicPublish(), BasicPublish())
    traced.server(*deliver(1))
    traced.client(QueueDeclare(queue="late"), ChannelClose(200, "bye"))
    traced.server(BasicAck(delivery_tag=1))
    traced.events.clear()
    unanswered, published, delivered = traced.server(ChannelCloseOk())
    assert isinstance(unanswered, RequestUnanswered)
    assert unanswered.request == QueueDeclare(queue="late")
    assert isinstance(published, PublishesSettled)
    assert (published.outcome, spans(published)) == (Settlement.OPEN, [(2, 2, 4.0)])
    assert isinstance(delivered, DeliveriesSettled)
    assert (delivered.outcome, spans(delivered)) == (Settlement.OPEN, [(1, 1, 3.0)])
    assert traced.trace.channels == {}


@pytest.mark.parametrize(
    ("sent", "close", "cause"),
    [
        ([BasicAck(7), BasicAck(8)], ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 8", 60, 80), 1),
        ([BasicAck(7), BasicAck(8)], ChannelClose(406, "PRECONDITION_FAILED", 60, 80), None),
        ([BasicAck(7), BasicAck(7)], ChannelClose(406, "PRECONDITION_FAILED", 60, 80), 0),
        ([QueueDeclare(queue="a"), QueueDeclare(queue="b")], ChannelClose(406, "inequivalent arg", 50, 10), 0),
        ([QueueDeclare(queue="a")], ChannelClose(541, "INTERNAL_ERROR", 0, 0), None),
        ([QueueDeclare(queue="a")], ChannelClose(404, "NOT_FOUND", 60, 40), None),
    ],
)
def test_the_cause_of_a_close_is_named_where_it_is_certain(sent: Any, close: ChannelClose, cause: int | None) -> None:
    traced = Traced(1)
    traced.client(*sent)
    event = traced.server(close)[-1]
    assert isinstance(event, ChannelClosed)
    assert event.cause == (None if cause is None else sent[cause])


def test_after_the_broker_has_closed_nothing_is_acked() -> None:
    traced = consuming()
    traced.server(*deliver(1))
    traced.server(ChannelClose(404, "NOT_FOUND", 60, 40))
    assert traced.client(BasicAck(delivery_tag=1)) == []
    traced.client(BasicPublish())
    assert traced.of(MessagePublished)[0].awaits is True
    traced.client(ChannelCloseOk())
    assert [each.outcome for each in traced.of(PublishesSettled)] == [Settlement.OPEN]
    assert [each.outcome for each in traced.of(DeliveriesSettled)] == [Settlement.OPEN]


def test_a_channel_that_is_opened_anew_begins_anew() -> None:
    traced = confirming()
    traced.client(BasicPublish())
    traced.client(ChannelClose())
    traced.server(ChannelCloseOk())
    traced.client(ChannelOpen(), BasicPublish())
    assert traced.of(MessagePublished)[-1].number == 1
    assert traced.of(MessagePublished)[-1].awaits is False


# --- what cannot be known


def test_a_trace_that_joins_in_the_middle_does_not_guess() -> None:
    traced = Traced(joined=True)
    traced.client(BasicPublish())
    traced.server(BasicAck(delivery_tag=1))
    traced.server(*deliver(5))
    traced.client(BasicAck(delivery_tag=4))
    traced.client(BasicAck(delivery_tag=5))
    traced.server(BasicQosOk())
    lost, published, confirmed, delivered, unknown, acked, answered = traced.events
    assert isinstance(lost, HistoryLost)
    assert isinstance(published, MessagePublished)
    assert (published.awaits, published.confirm_tag) == (None, None)
    assert isinstance(confirmed, PublishesSettled)
    assert (confirmed.spans, confirmed.is_unknown_tag) == ((), None)
    assert isinstance(delivered, MessageDelivered)
    assert (delivered.awaits, delivered.queue) == (None, None)
    assert isinstance(unknown, DeliveriesSettled)
    assert (unknown.spans, unknown.is_unknown_tag) == ((), None)
    assert isinstance(acked, DeliveriesSettled)
    assert spans(acked) == [(5, 5, 2.0)]
    assert isinstance(answered, RequestAnswered)
    assert (answered.request, answered.latency_ns) == (None, None)


def test_a_delivery_that_may_need_no_ack_is_not_open_at_the_end_but_unknown() -> None:
    traced = Traced(joined=True)
    traced.server(*deliver(5))
    traced.end()
    assert [(each.outcome, spans(each)) for each in traced.of(DeliveriesSettled)] == [
        (Settlement.UNKNOWN, [(5, 5, 1.0)])
    ]


@pytest.mark.parametrize("sender", [CLIENT, SERVER])
def test_after_a_gap_what_was_open_is_unknown(sender: Any) -> None:
    traced = confirming()
    traced.client(BasicConsume(queue="q", consumer_tag="c"))
    traced.server(BasicConsumeOk("c"))
    traced.client(BasicPublish())
    traced.server(*deliver(1))
    traced.client(QueueDeclare(queue="q"), QueueDeclare())
    traced.events.clear()
    lost, published, delivered = traced.gap(sender)
    assert isinstance(lost, HistoryLost)
    assert isinstance(published, PublishesSettled)
    assert isinstance(delivered, DeliveriesSettled)
    assert {published.outcome, delivered.outcome} == {Settlement.UNKNOWN}
    traced.server(BasicAck(delivery_tag=1))
    assert traced.of(PublishesSettled)[-1].is_unknown_tag is None
    traced.server(QueueDeclareOk("q", 0, 0))
    assert traced.of(RequestAnswered)[-1].request is None
    traced.client(QueueDeclare(queue="named"), QueueDeclare())
    traced.server(QueueDeclareOk("amq.gen", 0, 0), QueueDeclareOk("named", 0, 0))
    assert [each.request for each in traced.of(RequestAnswered)[-2:]] == [None, None]


def at_work() -> Traced:
    """A channel in confirm mode with an open publish, an open delivery of a consumer, and two requests under way."""
    traced = confirming()
    traced.client(BasicConsume(queue="q", consumer_tag="c"))
    traced.server(BasicConsumeOk("c"))
    traced.client(BasicPublish())
    traced.server(*deliver(1))
    traced.client(QueueDeclare(queue="q"), QueueDeclare())
    traced.events.clear()
    return traced


def test_missed_frames_of_the_broker_may_have_been_confirms_and_replies() -> None:
    traced = at_work()
    lost, published = traced.gap(SERVER, is_other_whole=True)
    assert isinstance(lost, HistoryLost)
    assert isinstance(published, PublishesSettled)
    assert published.outcome is Settlement.UNKNOWN
    traced.server(BasicAck(delivery_tag=1))
    assert traced.of(PublishesSettled)[-1].is_unknown_tag is None
    traced.server(QueueDeclareOk("q", 0, 0))
    assert traced.of(RequestAnswered)[-1].request is None


def test_after_missed_frames_of_the_broker_publishes_and_deliveries_are_known() -> None:
    traced = at_work()
    traced.gap(SERVER, is_other_whole=True)
    traced.client(BasicPublish())
    early = traced.of(MessagePublished)[-1]
    assert (early.awaits, early.confirm_tag) == (True, None)
    traced.server(*deliver(3))
    delivered = traced.of(MessageDelivered)[-1]
    assert (delivered.queue, delivered.awaits) == ("q", True)
    (confirmed,) = traced.server(BasicAck(delivery_tag=2))
    assert isinstance(confirmed, PublishesSettled)
    assert [(each.first, each.last) for each in confirmed.spans] == [(2, 2)]
    (published,) = traced.client(BasicPublish())
    assert isinstance(published, MessagePublished)
    assert published.confirm_tag == 3
    (acked,) = traced.client(BasicAck(delivery_tag=1))
    assert isinstance(acked, DeliveriesSettled)
    assert (len(acked.spans), acked.is_certain, acked.is_unknown_tag) == (1, True, False)
    (missed,) = traced.client(BasicAck(delivery_tag=2))
    assert isinstance(missed, DeliveriesSettled)
    assert (missed.spans, missed.is_unknown_tag) == ((), None)
    traced.client(BasicAck(delivery_tag=4, multiple=True))
    settled = traced.of(DeliveriesSettled)[-1]
    assert ([each.first for each in settled.spans], settled.is_certain) == ([3], False)


def test_a_reply_to_a_later_request_of_another_kind_ends_the_doubt_about_missed_replies() -> None:
    traced = at_work()
    traced.gap(SERVER, is_other_whole=True)
    traced.client(QueueDeclare(queue="r"))
    traced.server(QueueDeclareOk("r", 0, 0))
    assert traced.of(RequestAnswered)[-1].request is None
    traced.client(BasicQos(prefetch_count=1))
    traced.server(BasicQosOk())
    traced.client(QueueDeclare(queue="s"))
    traced.server(QueueDeclareOk("s", 0, 0))
    assert [each.request for each in traced.of(RequestAnswered)[-2:]] == [
        BasicQos(prefetch_count=1),
        QueueDeclare(queue="s"),
    ]


def test_missed_frames_of_the_client_may_have_been_acks_and_publishes() -> None:
    traced = at_work()
    lost, delivered = traced.gap(CLIENT, is_other_whole=True)
    assert isinstance(lost, HistoryLost)
    assert isinstance(delivered, DeliveriesSettled)
    assert delivered.outcome is Settlement.UNKNOWN
    (published,) = traced.client(BasicPublish())
    assert isinstance(published, MessagePublished)
    assert (published.awaits, published.confirm_tag) == (None, None)
    (confirmed,) = traced.server(BasicAck(delivery_tag=1))
    assert isinstance(confirmed, PublishesSettled)
    assert [each.first for each in confirmed.spans] == [1]
    traced.server(QueueDeclareOk("q", 0, 0), QueueDeclareOk("amq.gen", 0, 0))
    assert [each.request for each in traced.of(RequestAnswered)[-2:]] == [QueueDeclare(queue="q"), QueueDeclare()]
    traced.client(QueueDeclare(queue="named"))
    traced.server(QueueDeclareOk("named", 0, 0))
    assert traced.of(RequestAnswered)[-1].request is None


def test_a_confirm_beyond_the_publishes_before_missed_frames_of_the_client_settles_none_for_certain() -> None:
    traced = at_work()
    traced.gap(CLIENT, is_other_whole=True)
    traced.client(BasicPublish())
    traced.server(BasicAck(delivery_tag=2, multiple=True))
    assert [(each.outcome, len(each.spans)) for each in traced.of(PublishesSettled)] == [
        (Settlement.CONFIRMED, 0),
        (Settlement.UNKNOWN, 1),
    ]


def test_a_channel_that_was_reopened_unseen_has_none_of_the_publishes_before() -> None:
    traced = at_work()
    traced.gap(CLIENT, is_other_whole=True)
    traced.server(ChannelOpenOk())
    assert traced.of(PublishesSettled)[-1].outcome is Settlement.UNKNOWN
    (confirmed,) = traced.server(BasicAck(delivery_tag=1))
    assert isinstance(confirmed, PublishesSettled)
    assert confirmed.spans == ()


def test_what_a_channel_has_open_at_its_end_is_unknown_if_its_close_may_have_been_missed() -> None:
    traced = at_work()
    traced.gap(SERVER, is_other_whole=True)
    traced.client(BasicPublish())
    traced.end()
    assert {each.outcome for each in traced.of(PublishesSettled)} == {Settlement.UNKNOWN}
    assert traced.of(RequestUnanswered) == []


def test_a_channel_that_is_opened_after_a_gap_is_known_again() -> None:
    traced = Traced(1)
    traced.gap()
    traced.client(ChannelOpen(), channel=2)
    traced.server(ChannelOpenOk(), channel=2)
    traced.client(ConfirmSelect(), BasicPublish(), channel=2)
    (event,) = traced.server(BasicAck(delivery_tag=1), channel=2)
    assert isinstance(event, PublishesSettled)
    assert spans(event) == [(1, 1, 1.0)]


def test_beyond_the_limit_of_ranges_the_older_half_is_unknown() -> None:
    traced = consuming(max_spans=4)
    for tag in range(1, 6):
        traced.server(*deliver(tag))
    (event,) = traced.of(DeliveriesSettled)
    assert (event.outcome, [each.first for each in event.spans]) == (Settlement.UNKNOWN, [1, 2])
    (ack,) = traced.client(BasicAck(delivery_tag=1))
    assert isinstance(ack, DeliveriesSettled)
    assert (ack.spans, ack.is_unknown_tag) == ((), None)


# --- what crosses, and what repeats


def test_after_the_client_has_closed_the_broker_reads_nothing_of_it() -> None:
    traced = consuming()
    traced.server(*deliver(1))
    traced.client(ChannelClose(), BasicAck(delivery_tag=1))
    traced.server(ChannelCloseOk())
    (event,) = traced.of(DeliveriesSettled)
    assert event.outcome is Settlement.OPEN


def test_a_channel_ends_when_every_close_is_answered() -> None:
    traced = confirming()
    traced.client(ChannelClose())
    traced.server(ChannelClose(541, "INTERNAL_ERROR"))
    traced.client(ChannelCloseOk())
    assert 1 in traced.trace.channels
    traced.server(ChannelCloseOk())
    assert traced.trace.channels == {}


def test_a_close_ok_that_nobody_asked_for_makes_the_rest_unknown() -> None:
    traced = confirming()
    traced.client(BasicPublish())
    lost, event = traced.server(ChannelCloseOk())
    assert isinstance(lost, HistoryLost)
    assert lost.channel == 1
    assert isinstance(event, PublishesSettled)
    assert event.outcome is Settlement.UNKNOWN


def test_a_request_after_the_close_of_the_broker_has_no_reply() -> None:
    traced = Traced(1)
    traced.server(ChannelClose(541, "INTERNAL_ERROR"))
    assert traced.client(BasicQos()) == []
    (event,) = traced.client(ChannelCloseOk())
    assert isinstance(event, RequestUnanswered)
    assert event.request == BasicQos()


def test_what_is_acked_after_a_rollback_was_sent_is_known() -> None:
    traced = consuming()
    traced.client(TxSelect())
    traced.server(TxSelectOk())
    traced.server(*deliver(1))
    traced.client(BasicAck(delivery_tag=1), TxRollback(), BasicAck(delivery_tag=1), TxCommit())
    traced.server(TxRollbackOk(), TxCommitOk())
    assert [(each.outcome, each.is_unknown_tag, spans(each)) for each in traced.of(DeliveriesSettled)] == [
        (Settlement.ACKED, False, [(1, 1, 2.0)])
    ]


def test_a_second_ack_in_one_transaction_is_unknown() -> None:
    traced = consuming()
    traced.client(TxSelect())
    traced.server(*deliver(1))
    traced.client(BasicAck(delivery_tag=1))
    (event,) = traced.client(BasicAck(delivery_tag=1))
    assert isinstance(event, DeliveriesSettled)
    assert event.is_unknown_tag is True


def test_an_ack_after_recover_was_sent_settles_nothing() -> None:
    traced = consuming()
    traced.server(*deliver(1))
    traced.client(BasicRecover(requeue=False))
    (ack,) = traced.client(BasicAck(delivery_tag=1))
    assert isinstance(ack, DeliveriesSettled)
    assert (ack.spans, ack.is_unknown_tag) == ((), None)
    traced.server(BasicRecoverOk())
    recovered = traced.of(DeliveriesSettled)[-1]
    assert (recovered.outcome, spans(recovered), recovered.requeue) == (Settlement.RECOVERED, [(1, 1, 3.0)], False)


def test_recover_async_takes_effect_at_once() -> None:
    traced = consuming()
    traced.server(*deliver(1))
    (event,) = traced.client(BasicRecoverAsync(requeue=True))
    assert isinstance(event, DeliveriesSettled)
    assert (event.outcome, event.requeue) == (Settlement.RECOVERED, True)


def test_the_mode_of_a_channel_is_the_first_that_was_selected() -> None:
    traced = Traced(1)
    traced.client(TxSelect(), ConfirmSelect(), BasicPublish())
    (event,) = traced.of(MessagePublished)
    assert (event.confirm_tag, event.awaits) == (None, True)
    traced = confirming()
    traced.client(ConfirmSelect(), TxSelect(), BasicPublish(), ConfirmSelect(), BasicPublish())
    assert [each.confirm_tag for each in traced.of(MessagePublished)] == [1, 2]


def test_a_confirm_outside_of_confirm_mode_is_unknown() -> None:
    traced = Traced(1)
    traced.client(BasicPublish())
    (event,) = traced.server(BasicAck(delivery_tag=1))
    assert isinstance(event, PublishesSettled)
    assert (event.spans, event.is_unknown_tag) == ((), True)


def test_a_confirm_with_multiple_confirms_what_came_before_a_settled_tag() -> None:
    traced = confirming()
    traced.client(BasicPublish(), BasicPublish(), BasicPublish())
    traced.server(BasicAck(delivery_tag=2))
    (event,) = traced.server(BasicAck(delivery_tag=2, multiple=True))
    assert isinstance(event, PublishesSettled)
    assert (spans(event), event.is_unknown_tag) == ([(1, 1, 2.0)], True)


def test_an_ack_with_multiple_of_a_settled_tag_settles_nothing() -> None:
    """RabbitMQ closes the channel."""
    traced = consuming()
    traced.server(*deliver(1, 2))
    traced.client(BasicAck(delivery_tag=2))
    (event,) = traced.client(BasicAck(delivery_tag=2, multiple=True))
    assert isinstance(event, DeliveriesSettled)
    assert (event.spans, event.is_unknown_tag) == ((), True)


def test_methods_of_the_wrong_peer_are_ignored() -> None:
    traced = consuming()
    traced.server(*deliver(1))
    assert traced.server(BasicReject(delivery_tag=1), TxSelect(), BasicPublish()) == []
    assert traced.client(QueueDeclareOk("q", 0, 0)) == []
    assert traced.trace.channels[1].unacked == 1


def test_a_method_with_content_of_the_wrong_peer_ends_what_the_broker_reads() -> None:
    traced = consuming()
    traced.server(*deliver(1))
    lost, published = traced.client(*deliver(2), BasicPublish())
    assert isinstance(lost, HistoryLost)
    assert isinstance(published, MessagePublished)
    assert traced.trace.channels[1].unacked == 1


def test_a_body_beyond_its_announced_size_is_no_message() -> None:
    traced = Traced(1)
    publish, header, body = frames_of(1, BasicPublish(), body=b"abc")
    more = Frame(encode_frame(BODY, 1, b"de"))
    (event,) = traced.trace.feed(CLIENT, [publish, header, Frame(encode_frame(BODY, 1, b"ab")), more, body, more], 0)
    assert isinstance(event, HistoryLost)
    assert event.reason == "a body that was announced with 3 bytes is longer"


def test_a_content_that_is_broken_off_is_none() -> None:
    traced = Traced(1)
    publish, header = frames_of(1, BasicPublish(), body=b"abc")[:2]
    qos = frames_of(1, BasicQos())
    assert traced.trace.feed(CLIENT, [publish, header, *qos], 0) == []
    body = frames_of(1, BasicPublish(), body=b"abc")[2:]
    assert traced.trace.feed(CLIENT, body, 0) == []


# --- consumers


def test_the_queue_of_a_consumer_is_the_one_declared_before_it() -> None:
    traced = Traced(1)
    traced.client(QueueDeclare(), BasicConsume(consumer_tag="c"), QueueDeclare(queue="other"))
    traced.server(QueueDeclareOk("amq.gen-1", 0, 0), QueueDeclareOk("other", 0, 0))
    traced.server(BasicConsumeOk("c"))
    traced.server(*deliver(1))
    assert traced.of(MessageDelivered)[0].queue == "amq.gen-1"


def test_a_tag_that_is_used_again_while_deliveries_are_under_way() -> None:
    traced = consuming()
    traced.client(BasicCancel("c"), BasicConsume(queue="other", consumer_tag="c", no_ack=True))
    traced.server(*deliver(1))
    traced.server(BasicCancelOk("c"))
    traced.server(BasicConsumeOk("c"))
    traced.server(*deliver(2))
    assert [(each.queue, each.awaits) for each in traced.of(MessageDelivered)] == [("q", True), ("other", False)]


def test_a_tag_that_is_used_again_without_a_reply_may_be_either_consumer() -> None:
    traced = consuming()
    traced.client(BasicCancel("c", no_wait=True))
    traced.server(*deliver(1))
    traced.client(BasicConsume(queue="other", consumer_tag="c", no_wait=True))
    traced.server(*deliver(2))
    assert [(each.queue, each.awaits) for each in traced.of(MessageDelivered)] == [("q", True), (None, True)]


def test_a_consumer_that_the_broker_has_cancelled() -> None:
    traced = consuming()
    traced.server(BasicCancel("c", no_wait=True))
    traced.server(*deliver(1))
    assert traced.of(MessageDelivered)[0].queue is None


def test_consumers_that_the_broker_names_and_does_not_tell() -> None:
    traced = Traced(1)
    traced.client(BasicConsume(queue="a", no_wait=True))
    traced.server(*deliver(1, consumer_tag="amq.ctag-1"))
    traced.client(BasicConsume(queue="b", no_wait=True))
    traced.server(*deliver(2, consumer_tag="amq.ctag-1"))
    assert [each.queue for each in traced.of(MessageDelivered)] == ["a", None]


def test_direct_replies_repeat_their_tag() -> None:
    traced = Traced(1)
    traced.client(BasicConsume(queue="amq.rabbitmq.reply-to", consumer_tag="r", no_ack=True))
    traced.server(BasicConsumeOk("r"))
    traced.client(BasicConsume(queue="q", consumer_tag="c"))
    traced.server(BasicConsumeOk("c"))
    traced.server(*deliver(1, 1, consumer_tag="r"), *deliver(1))
    (event,) = traced.client(BasicAck(delivery_tag=1))
    assert isinstance(event, DeliveriesSettled)
    assert [each.consumer_tag for each in event.spans] == ["c"]


def test_of_two_deliveries_with_one_tag_and_unknown_consumers_nothing_is_known() -> None:
    traced = Traced(joined=True)
    traced.server(*deliver(5, consumer_tag="r"))
    traced.server(*deliver(5))
    (event,) = traced.client(BasicAck(delivery_tag=5))
    assert isinstance(event, DeliveriesSettled)
    assert (event.spans, event.is_unknown_tag) == ((), None)


def test_what_is_acked_on_a_channel_of_unknown_mode_is_not_certain() -> None:
    traced = Traced(joined=True)
    traced.server(*deliver(5))
    (event,) = traced.client(BasicAck(delivery_tag=5))
    assert isinstance(event, DeliveriesSettled)
    assert event.is_certain is False


def test_gets_one_after_the_other() -> None:
    traced = Traced(1)
    traced.client(BasicGet(queue="a"))
    traced.client(BasicGet(queue="b", no_ack=True))
    traced.client(BasicGet(queue="c"))
    traced.server(BasicGetOk(1), body=b"x")
    traced.server(BasicGetOk(2))
    traced.server(BasicGetEmpty())
    assert [(each.queue, each.awaits, each.latency_ns) for each in traced.of(MessageDelivered)] == [
        ("a", True, 3 * MS),
        ("b", False, 3 * MS),
    ]
    assert traced.of(RequestAnswered)[-1].request == BasicGet(queue="c")


# --- messages that come back


def test_a_return_may_be_of_an_immediate_publish() -> None:
    traced = Traced(1)
    traced.client(BasicPublish(immediate=True))
    traced.client(BasicPublish(mandatory=True))
    (event,) = traced.server(BasicReturn(313, "NO_CONSUMERS"))
    assert isinstance(event, MessageReturned)
    assert event.number is None


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_a_return_may_be_of_a_publish_that_is_not_known_any_more(is_forgotten: bool) -> None:
    traced = confirming(max_spans=1)
    traced.client(BasicPublish(mandatory=True))
    if is_forgotten:
        traced.client(BasicPublish())
        assert traced.of(PublishesSettled)[0].outcome is Settlement.UNKNOWN
    else:
        traced.gap()
    traced.client(BasicPublish(mandatory=True))
    (event,) = traced.server(BasicReturn())
    assert isinstance(event, MessageReturned)
    assert event.number is None


# --- bounds


def test_after_a_loss_no_request_is_without_a_reply() -> None:
    traced = Traced(joined=True)
    traced.client(BasicQos())
    traced.server(BasicQosOk())
    traced.client(BasicQos())
    traced.end()
    assert traced.of(RequestUnanswered) == []


def test_ranges_that_acks_split_are_within_the_budget() -> None:
    traced = consuming(max_spans=10)
    traced.server(*deliver(*range(1, 101)))
    traced.client(*(BasicAck(delivery_tag=tag) for tag in range(2, 100, 2)))
    assert Settlement.UNKNOWN in {each.outcome for each in traced.of(DeliveriesSettled)}
    assert traced.trace.channels[1].unacked <= 22


def test_what_is_settled_in_a_transaction_is_within_the_budget() -> None:
    traced = consuming(max_spans=10)
    traced.client(TxSelect())
    for tag in range(1, 101):
        traced.server(*deliver(tag))
        traced.client(BasicAck(delivery_tag=tag))
    unknown = [each for each in traced.of(DeliveriesSettled) if each.outcome is Settlement.UNKNOWN]
    assert sum(len(each.spans) for each in unknown) >= 89


def test_what_a_channel_has_held_is_free_again_when_it_ends() -> None:
    traced = Traced(max_spans=100, max_memory=100_000)
    budgets = traced.trace._budgets
    for _ in range(3):
        traced.client(ChannelOpen(), TxSelect(), QueueDeclare(queue="q"), BasicPublish(mandatory=True))
        traced.client(BasicConsume(queue="q", consumer_tag="c", no_wait=True))
        traced.server(*deliver(1))
        traced.client(BasicAck(delivery_tag=1), TxCommit(), ChannelClose())
        assert budgets.spans.left < 100
        assert budgets.memory.left < 100_000
        traced.server(ChannelCloseOk())
        assert (budgets.spans.left, budgets.memory.left) == (100, 100_000)


def test_large_requests_are_not_remembered_beyond_the_memory() -> None:
    traced = Traced(1, max_memory=1_000_000)
    for _ in range(10):
        traced.client(QueueDeclare(queue="q", arguments=Table({"x": "a" * 60_000})))
    traced.server(*[QueueDeclareOk("q", 0, 0)] * 10)
    answered = [each.request for each in traced.of(RequestAnswered)]
    assert answered[0] is not None
    assert answered[-1] is None
    traced.client(QueueDeclare(queue="q"))
    traced.server(QueueDeclareOk("q", 0, 0))
    assert traced.of(RequestAnswered)[-1].request == QueueDeclare(queue="q")
