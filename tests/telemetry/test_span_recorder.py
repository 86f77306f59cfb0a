"""From what happens on a connection to the spans of its messages."""

import pytest

from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from amqproxy.amqp091.wire import Table
from amqproxy.taps.note import Note
from tests.telemetry.spans import SPAN, TRACE, TRACED, Spans, milliseconds, story


def confirming(**options: int) -> Spans:
    spans = Spans(**options)
    spans.client(ConfirmSelect())
    spans.server(ConfirmSelectOk())
    return spans


def transactional() -> Spans:
    spans = Spans()
    spans.client(TxSelect())
    spans.server(TxSelectOk())
    return spans


def consuming(*, no_ack: bool = False, **options: int) -> Spans:
    spans = Spans(**options)
    spans.client(BasicConsume(queue="work", no_ack=no_ack))
    spans.server(BasicConsumeOk(consumer_tag="t"))
    return spans


def delivery(tag: int, *, redelivered: bool = False) -> BasicDeliver:
    return BasicDeliver("t", tag, redelivered, "orders", "new")


PUBLISH = BasicPublish(exchange="orders", routing_key="new")

# --- publishes


def test_a_publish_until_its_confirm() -> None:
    spans = confirming()
    assert spans.client(PUBLISH, properties=TRACED, body=b"hello") == []
    (span,) = spans.server(BasicAck(delivery_tag=1))
    assert story(span) == ("publish orders", "confirmed", "")
    assert milliseconds(span) == 1
    assert (span.delivery_tag, span.message_id, span.correlation_id, span.size) == (1, "m-1", "c-1", 5)
    assert span.context is not None
    assert (span.context.trace_id, span.context.span_id, span.context.tracestate) == (TRACE, SPAN, "vendor=x")
    assert "secret" not in str(span.attributes())
    assert spans.budget.spans == 1  # until it is exported


def test_a_confirm_of_several_publishes() -> None:
    spans = confirming()
    for _ in range(3):
        spans.client(PUBLISH)
    assert [milliseconds(span) for span in spans.server(BasicAck(delivery_tag=2, multiple=True))] == [3, 2]
    assert [milliseconds(span) for span in spans.server(BasicAck(delivery_tag=3))] == [2]


def test_a_nack_is_an_error() -> None:
    spans = confirming()
    spans.client(PUBLISH)
    (span,) = spans.server(BasicNack(delivery_tag=1))
    assert story(span) == ("publish orders", "nacked", "nacked by the broker")
    assert span.failure is not None
    assert span.failure.type == "nacked"


def test_a_returned_publish_ends_with_its_confirm_and_is_an_error() -> None:
    spans = confirming()
    spans.client(BasicPublish(exchange="orders", routing_key="new", mandatory=True), body=b"x")
    assert spans.server(BasicReturn(312, "NO_ROUTE", "orders", "new"), body=b"x") == []
    (span,) = spans.server(BasicAck(delivery_tag=1))
    assert story(span) == ("publish orders", "returned", "returned: 312 NO_ROUTE")
    assert span.failure is not None
    assert span.failure.type == "312"


def test_a_publish_without_confirms_ends_at_once_and_its_return_is_a_span_of_the_same_trace() -> None:
    spans = Spans()
    (published,) = spans.client(
        BasicPublish(exchange="orders", routing_key="new", mandatory=True), properties=TRACED, body=b"x"
    )
    assert (story(published), milliseconds(published)) == (("publish orders", "sent", ""), 0)
    (returned,) = spans.server(BasicReturn(312, "NO_ROUTE", "orders", "new"), properties=TRACED, body=b"x")
    assert story(returned) == ("return orders", "returned", "returned: 312 NO_ROUTE")
    assert published.context == returned.context


def test_a_transaction() -> None:
    spans = transactional()
    spans.client(PUBLISH)
    spans.client(TxCommit())
    (committed,) = spans.server(TxCommitOk())
    assert (story(committed), milliseconds(committed)) == (("publish orders", "committed", ""), 2)
    spans.client(PUBLISH)
    spans.client(TxRollback())
    (rolled_back,) = spans.server(TxRollbackOk())
    assert story(rolled_back) == ("publish orders", "rolled back", "")


def test_what_is_open_when_its_channel_is_closed_is_an_error_that_says_why() -> None:
    spans = confirming()
    spans.client(PUBLISH)
    spans.server(ChannelClose(404, "NOT_FOUND - no exchange 'orders'", 60, 40))
    (span,) = spans.client(ChannelCloseOk())
    expected = "open when its channel was closed: 404 NOT_FOUND - no exchange 'orders'"
    assert story(span) == ("publish orders", "open", expected)
    assert span.failure is not None
    assert span.failure.type == "404"
    spans.client(ChannelOpen())
    spans.server(ChannelOpenOk())
    spans.client(ConfirmSelect(no_wait=True))
    spans.client(PUBLISH)
    spans.client(ChannelClose(200, "bye"))
    (span,) = spans.server(ChannelCloseOk())
    assert story(span) == ("publish orders", "open", "open when its channel was closed")
    assert span.failure is not None
    assert span.failure.type == "open"


def test_what_is_open_when_its_connection_is_closed() -> None:
    spans = confirming()
    spans.client(PUBLISH)
    spans.server(ConnectionClose(320, "CONNECTION_FORCED"), channel=0)
    (span,) = spans.client(ConnectionCloseOk(), channel=0)
    assert story(span)[2] == "open when its connection was closed: 320 CONNECTION_FORCED"


def test_what_is_open_when_its_connection_ends_without_a_close() -> None:
    spans = confirming()
    spans.client(PUBLISH)
    (span,) = spans.end("the client is gone")
    assert story(span)[2] == "open when its connection ended: the client is gone"


def test_what_a_rule_has_done() -> None:
    spans = confirming()
    spans.client(PUBLISH, note=Note(rules=("slow",), verdict="delayed"))
    spans.client(PUBLISH, note=Note(rules=("no",), verdict="refused", leg="client"))
    delayed, refused = spans.server(BasicNack(delivery_tag=2, multiple=True))
    assert (delayed.rules, delayed.verdict) == (("slow",), "delayed")
    assert story(refused) == ("publish orders", "nacked", "refused by no")


# --- deliveries


def test_a_delivery_until_its_ack() -> None:
    spans = consuming()
    assert spans.server(delivery(1), properties=TRACED, body=b"hello") == []
    (span,) = spans.client(BasicAck(delivery_tag=1))
    assert story(span) == ("deliver work", "acked", "")
    assert (milliseconds(span), span.queue, span.delivery_tag, span.size) == (1, "work", 1, 5)
    assert span.context is not None
    assert (span.context.trace_id, span.context.span_id) == (TRACE, SPAN)


def test_an_ack_of_several_deliveries() -> None:
    spans = consuming()
    for tag in (1, 2, 3):
        spans.server(delivery(tag))
    assert [each.delivery_tag for each in spans.client(BasicAck(delivery_tag=2, multiple=True))] == [1, 2]
    assert [each.delivery_tag for each in spans.client(BasicAck(delivery_tag=0, multiple=True))] == [3]


def test_a_refused_delivery_is_an_error_and_its_redelivery_is_a_new_span() -> None:
    spans = consuming()
    spans.server(delivery(1))
    (rejected,) = spans.client(BasicReject(delivery_tag=1, requeue=True))
    assert story(rejected) == ("deliver work", "rejected", "rejected by the consumer")
    spans.server(delivery(2, redelivered=True))
    (nacked,) = spans.client(BasicNack(delivery_tag=2, requeue=False))
    assert story(nacked) == ("deliver work", "nacked", "nacked by the consumer")
    assert [(each.is_redelivered, each.requeue) for each in spans.spans] == [(False, True), (True, False)]


def test_recovered_deliveries_are_no_error() -> None:
    spans = consuming()
    spans.server(delivery(1))
    spans.client(BasicRecover(requeue=True))
    (span,) = spans.server(BasicRecoverOk())
    assert (story(span), span.requeue) == (("deliver work", "recovered", ""), True)


def test_an_acknowledgement_takes_effect_with_its_transaction() -> None:
    spans = consuming()
    spans.client(TxSelect())
    spans.server(TxSelectOk())
    spans.server(delivery(1))
    spans.client(BasicAck(delivery_tag=1))
    spans.client(TxRollback())
    assert spans.server(TxRollbackOk()) == []
    spans.client(BasicAck(delivery_tag=1))
    spans.client(TxCommit())
    (span,) = spans.server(TxCommitOk())
    assert (story(span), milliseconds(span)) == (("deliver work", "acked", ""), 6)


def test_a_delivery_without_acknowledgement_ends_at_once() -> None:
    spans = consuming(no_ack=True)
    (span,) = spans.server(delivery(1))
    assert (story(span), milliseconds(span)) == (("deliver work", "auto-acked", ""), 0)


def test_a_message_that_was_got() -> None:
    spans = Spans()
    spans.client(BasicGet(queue="work"))
    spans.server(BasicGetOk(1, False, "orders", "new", 0))
    (span,) = spans.client(BasicAck(delivery_tag=1))
    assert (story(span), span.operation.type) == (("get work", "acked", ""), "receive")


def test_what_is_unacked_when_its_channel_is_closed() -> None:
    spans = consuming()
    spans.server(delivery(1))
    spans.client(ChannelClose(200, "bye"))
    (span,) = spans.server(ChannelCloseOk())
    assert story(span) == ("deliver work", "open", "open when its channel was closed")


# --- what is not known


def test_a_connection_that_was_joined_in_its_middle() -> None:
    spans = Spans(joined=True)
    (published,) = spans.client(PUBLISH)
    assert story(published) == ("publish orders", "unknown", "")
    spans.server(delivery(5))
    (acked,) = spans.client(BasicAck(delivery_tag=5))
    assert story(acked) == ("deliver orders", "acked", "")
    assert spans.client(BasicAck(delivery_tag=9)) == []


def test_what_was_open_before_a_gap_is_unknown_and_no_error() -> None:
    spans = confirming()
    spans.client(PUBLISH)
    (span,) = spans.gap()
    assert story(span) == ("publish orders", "unknown", "")


def test_a_delivery_tag_that_comes_twice() -> None:
    spans = consuming()
    spans.server(delivery(1))
    assert [story(each)[1] for each in spans.server(delivery(1))] == ["unknown", "unknown"]


# --- which messages, and how many


def test_what_is_not_sampled_has_no_span_and_takes_no_room() -> None:
    spans = confirming(ratio=0)
    spans.client(PUBLISH, PUBLISH)
    assert spans.server(BasicAck(delivery_tag=2, multiple=True)) == []
    assert (spans.budget.spans, spans.dropped) == (0, 0)


def test_spans_for_which_there_is_no_room_are_dropped_and_counted() -> None:
    spans = confirming(most=6)
    spans.client(*[PUBLISH] * 10)
    assert (spans.budget.spans, spans.dropped) == (3, 7)
    assert [span.delivery_tag for span in spans.server(BasicAck(delivery_tag=10, multiple=True))] == [1, 2, 3]
    spans.budget.give(3, sum(span.cost for span in spans.spans))
    spans.client(PUBLISH)
    assert len(spans.server(BasicAck(delivery_tag=11))) == 1
    few = confirming(memory=3000)
    few.client(*[PUBLISH] * 10)
    assert few.dropped == 9


def test_forgetting_gives_the_room_back() -> None:
    spans = confirming()
    spans.client(*[PUBLISH] * 3)
    spans.recorder.forget()
    assert (spans.budget.spans, spans.dropped) == (0, 3)
    assert spans.server(BasicAck(delivery_tag=3, multiple=True)) == []


def test_the_channels_are_apart() -> None:
    spans = Spans(1, 2)
    for channel in (1, 2):
        spans.client(ConfirmSelect(no_wait=True), channel=channel)
        spans.client(PUBLISH, channel=channel)
    (span,) = spans.server(BasicAck(delivery_tag=1), channel=2)
    assert span.channel == 2
    assert len(spans.end()) == 1


@pytest.mark.parametrize("name", ["connection_name", "clientName", "qpid.client_process"])
def test_what_is_known_of_the_connection(name: str) -> None:
    spans = Spans(joined=True)
    spans.traced.trace.feed_protocol_header(0)
    spans.server(ConnectionStart(), channel=0)
    properties = Table({name: "billing", "product": "pika"})
    spans.client(ConnectionStartOk(client_properties=properties, response=b"\0guest\0guest"), channel=0)
    spans.client(ConnectionOpen("shop"), channel=0)
    spans.server(ConnectionOpenOk(), channel=0)
    spans.client(ChannelOpen())
    spans.server(ChannelOpenOk())
    (span,) = spans.client(PUBLISH)
    assert span.connection == {
        "amqproxy.session": 7,
        "amqproxy.virtual_host": "shop",
        "messaging.client.id": "billing",
    }
