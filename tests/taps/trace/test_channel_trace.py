"""What happens on a channel, as the trace reports it."""

from __future__ import annotations

from typing import Any

import pytest

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
    BasicRecoverOk,
    BasicReject,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelOpen,
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
from tests.taps.trace.traced import Traced

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
        ts_ns=traced.ts_ns, channel=1, outcome=Settlement.CONFIRMED, spans=(), is_unknown_tag=True
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
    assert event == FlowChanged(ts_ns=traced.ts_ns, channel=1, sender=SERVER, is_active=False)


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
    assert [each.request for each in traced.of(RequestAnswered)[-2:]] == [None, QueueDeclare(queue="named")]


def test_a_channel_that_is_opened_after_a_gap_is_known_again() -> None:
    traced = Traced(1)
    traced.gap()
    traced.client(ChannelOpen(), channel=2)
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
