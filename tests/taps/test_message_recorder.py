"""One record a message, with what became of it."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ConfirmSelect,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionUnblocked,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.amqp091.wire import Table
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.message_recorder import MessageRecorder
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.pending_messages import MAX_PENDING_MESSAGES, PATIENCE_NS, RECORD_COST, PendingBudget
from tests.taps.trace.traced import Traced


class Recorded(Traced):
    """A connection whose messages are recorded."""

    def __init__(self, *channels: int, joined: bool = False, body: int = 0, **options: Any) -> None:
        self.recorder = MessageRecorder(7, "a:1-b:2", body=body, **options)
        super().__init__(*channels, joined=joined, body=body)
        self.recorder.record([])

    def records(self, note: Note = NOTHING) -> list[MessageRecord]:
        """The records of what has happened since the last call."""
        records = self.recorder.record(self.events, note)
        self.events.clear()
        return records


class OfTheClientToE:
    """Selects what the client sends that names the exchange "e"."""

    def learn(self, sender: Peer, frame: Frame) -> None:
        pass

    def selects(self, sender: Peer, channel: int, method: Method, *content: Any, **more: Any) -> bool:
        return sender is CLIENT and getattr(method, "exchange", "") == "e"


def brief(records: list[MessageRecord]) -> list[tuple[Any, ...]]:
    return [(each.type, each.number or each.delivery_tag, each.outcome, each.seconds) for each in records]


def test_a_publish_with_all_that_is_known_of_it() -> None:
    recorded = Recorded(1, body=4)
    recorded.client(ConfirmSelect())
    method = BasicPublish(exchange="e", routing_key="k", mandatory=True)
    properties = Properties(type="t", headers=Table({"n": 1}))
    recorded.client(method, properties=properties, body=b"hello")
    ts_ns = recorded.ts_ns
    assert recorded.records(Note(("r",), ("gdpr",), "rewritten")) == []
    recorded.server(BasicReturn(312, "NO_ROUTE", "e", "k"), properties=properties, body=b"hello")
    recorded.server(BasicAck(delivery_tag=1))
    (record,) = recorded.records()
    assert record == MessageRecord(
        ts_ns=ts_ns,
        stream=7,
        connection="a:1-b:2",
        sender="client",
        channel=1,
        type="publish",
        outcome="confirmed",
        seconds=0.002,
        number=1,
        confirm_tag=1,
        exchange="e",
        routing_key="k",
        mandatory=True,
        size=5,
        properties={"headers": {"n": 1}, "type": "t"},
        body="hell",
        code=312,
        reason="NO_ROUTE",
        rules=("r",),
        tags=("gdpr",),
        verdict="rewritten",
    )


def test_publishes_that_await_nothing_are_recorded_at_once() -> None:
    recorded = Recorded(1)
    recorded.client(BasicPublish())
    assert brief(recorded.records()) == [("publish", 1, "sent", None)]
    recorded.server(BasicReturn(312, "NO_ROUTE", "", ""))
    assert brief(recorded.records()) == [("return", None, "returned", None)]


def test_deliveries() -> None:
    recorded = Recorded(1)
    recorded.client(BasicConsume(queue="q", consumer_tag="c"))
    recorded.server(BasicConsumeOk("c"))
    recorded.records()
    recorded.server(*(BasicDeliver("c", tag, tag == 2, "e", "k") for tag in (1, 2, 3)))
    recorded.client(BasicAck(delivery_tag=1))
    recorded.client(BasicNack(delivery_tag=2, requeue=True))
    recorded.client(ChannelClose())
    recorded.server(ChannelCloseOk())
    first, second, closed, third = recorded.records()
    assert (first.queue, first.consumer_tag, first.redelivered, first.requeue) == ("q", "c", False, None)
    assert (second.redelivered, second.requeue) == (True, True)
    assert brief([first, second, closed, third]) == [
        ("deliver", 1, "acked", 0.001),
        ("deliver", 2, "nacked", 0.002),
        ("channel", None, "closed", None),
        ("deliver", 3, "open", None),
    ]


def test_gets() -> None:
    recorded = Recorded(1)
    recorded.client(BasicGet(queue="q", no_ack=True))
    recorded.server(BasicGetOk(1, False, "e", "k", 0))
    recorded.client(BasicGet(queue="q"))
    recorded.server(BasicGetEmpty())
    assert brief(recorded.records()) == [("get", 1, "auto-acked", None), ("request", None, "answered", 0.001)]


def test_requests() -> None:
    recorded = Recorded(1)
    recorded.client(QueueDeclare(queue="q"))
    begun = recorded.ts_ns
    recorded.server(QueueDeclareOk("q", 3, 0))
    recorded.client(QueueDeclare(queue="r", no_wait=True))
    recorded.client(QueueDeclare(queue="s"))
    recorded.server(ChannelClose(404, "NOT_FOUND", 50, 10))
    recorded.client(ChannelCloseOk())
    declared, sent, closed, unanswered = recorded.records()
    assert (declared.ts_ns, declared.seconds) == (begun, 0.001)
    assert (declared.method, declared.reply) == ("queue.declare", "queue.declare-ok")
    assert (declared.arguments or {})["queue"] == "q"
    assert (declared.reply_arguments or {})["message_count"] == 3
    assert (sent.outcome, unanswered.outcome) == ("sent", "unanswered")
    assert (closed.code, closed.reason, closed.method) == (404, "NOT_FOUND", "queue.declare")


def test_a_reply_names_the_request_that_was_not_seen() -> None:
    recorded = Recorded(joined=True)
    recorded.server(QueueDeclareOk("q", 0, 0))
    joined, declared = recorded.records()
    assert (joined.outcome, declared.method, declared.arguments) == ("joined", "queue.declare", None)
    assert (declared.reply_arguments or {})["queue"] == "q"


def test_a_return_after_a_join_is_a_return() -> None:
    recorded = Recorded(joined=True)
    recorded.client(BasicPublish(exchange="e", mandatory=True))
    recorded.server(BasicReturn(312, "NO_ROUTE", "e", ""))
    assert brief(recorded.records())[1:] == [("publish", 1, "unknown", None), ("return", None, "returned", None)]


def test_what_happens_to_a_connection() -> None:
    recorded = Recorded(1)
    recorded.server(ConnectionBlocked("low on memory"), channel=0)
    recorded.server(ConnectionUnblocked(), channel=0)
    recorded.server(ChannelFlow(False))
    recorded.server(ChannelFlow(True))
    recorded.client(ChannelFlowOk(False), ChannelFlowOk(True))
    recorded.server(ConnectionClose(320, "CONNECTION_FORCED"), channel=0)
    assert [(each.type, each.outcome, each.reason) for each in recorded.records()] == [
        ("connection", "blocked", "low on memory"),
        ("connection", "unblocked", None),
        ("channel", "stopped", None),
        ("channel", "resumed", None),
        ("request", "answered", None),
        ("request", "answered", None),
        ("connection", "closed", "CONNECTION_FORCED"),
    ]
    recorded.end()
    assert recorded.records() == []


def test_the_end_without_a_close() -> None:
    recorded = Recorded(1)
    recorded.end()
    (record,) = recorded.records()
    assert (record.type, record.outcome, record.reason, record.sender, record.code) == (
        "connection",
        "closed",
        "over",
        None,
        None,
    )


def test_tags_that_are_not_open() -> None:
    recorded = Recorded(1)
    recorded.client(BasicNack(delivery_tag=9, multiple=True))
    (record,) = recorded.records()
    assert (record.type, record.outcome, record.method, record.delivery_tag, record.multiple) == (
        "settle",
        "unknown tag",
        "basic.nack",
        9,
        True,
    )


def test_what_cannot_be_known_is_reported_as_unknown() -> None:
    recorded = Recorded(joined=True)
    recorded.client(BasicPublish())
    recorded.server(BasicAck(delivery_tag=1))
    assert brief(recorded.records()) == [("connection", None, "joined", None), ("publish", 1, "unknown", None)]


def test_what_is_open_for_long_is_pending_first() -> None:
    recorded = Recorded(1)
    recorded.client(ConfirmSelect())
    recorded.client(BasicPublish())
    begun = recorded.ts_ns
    recorded.client(BasicPublish())
    recorded.records()
    assert recorded.recorder.overdue(begun + PATIENCE_NS - 1) == []
    assert brief(recorded.recorder.overdue(begun + PATIENCE_NS)) == [("publish", 1, "pending", None)]
    assert brief(recorded.recorder.overdue(begun + PATIENCE_NS)) == []
    recorded.server(BasicAck(delivery_tag=2, multiple=True))
    assert brief(recorded.records()) == [("publish", 1, "confirmed", 0.002), ("publish", 2, "confirmed", 0.001)]


def test_the_oldest_is_pending_where_too_many_are_open() -> None:
    recorded = Recorded(1)
    recorded.client(ConfirmSelect(), *[BasicPublish()] * (MAX_PENDING_MESSAGES + 1))
    assert brief(recorded.records()) == [("publish", 1, "pending", None)]
    recorded.server(BasicAck(delivery_tag=2, multiple=True))
    assert brief(recorded.records()) == [("publish", 2, "confirmed", 0.001)]


def test_the_bytes_of_open_messages_are_bounded_for_all_recorders() -> None:
    budget = PendingBudget(3 * RECORD_COST + 3000)
    quiet, busy = Recorded(1, budget=budget), Recorded(1, budget=budget)
    for each in (quiet, busy):
        each.client(ConfirmSelect())
    quiet.client(BasicPublish())
    assert quiet.records() == []
    large = Properties(headers=Table({"x": "y" * 2000}))
    for _ in range(3):
        busy.client(BasicPublish(), properties=large)
    assert [each[1:3] for each in brief(busy.records())] == [(1, "pending"), (2, "pending")]
    busy.server(BasicAck(delivery_tag=3, multiple=True))
    quiet.server(BasicAck(delivery_tag=1))
    assert [each[1:3] for each in brief(busy.records() + quiet.records())] == [(3, "confirmed"), (1, "confirmed")]
    assert budget.left == 3 * RECORD_COST + 3000


def test_only_what_is_selected_and_errors() -> None:
    recorded = Recorded(1, selector=OfTheClientToE())
    recorded.client(BasicPublish(exchange="e"), BasicPublish(exchange="f"), QueueDeclare(queue="q"))
    recorded.server(QueueDeclareOk("q", 0, 0), ChannelClose(406, "PRECONDITION_FAILED"))
    recorded.client(ChannelCloseOk())
    assert [(each.type, each.outcome) for each in recorded.records()] == [("publish", "sent"), ("channel", "closed")]
