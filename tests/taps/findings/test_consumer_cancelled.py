"""Consumers that the broker has ended, and what ended them."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp010.commands import MessageSubscribe
from amqproxy.amqp010.commands import QueueDelete as Amqp010QueueDelete
from amqproxy.amqp010.controls import SessionCompleted
from amqproxy.amqp091.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    ChannelClose,
    ChannelCloseOk,
    QueueDelete,
    QueueDeleteOk,
)
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.findings.finding import RecordNumber
from amqproxy.taps.findings.process_detector import ConnectionPlace
from amqproxy.taps.trace.events import ChannelClosed, ConnectionOpened, RequestAnswered, TraceEvent
from tests.taps.findings.inspected_together import Member, Together

TELLS = {"capabilities": {"consumer_cancel_notify": True}}


def consuming(together: Together, properties: dict[str, Any] | None = TELLS) -> Member:
    member = together.connect(properties=properties)
    member.ask(BasicConsume(queue="q", consumer_tag="c"), BasicConsumeOk("c"))
    return member


def cancel(member: Member) -> None:
    member.server(BasicCancel("c", no_wait=True))


def delete(member: Member, queue: str = "q") -> None:
    member.ask(QueueDelete(queue=queue), QueueDeleteOk(0))


@pytest.mark.parametrize("is_first", [True, False])
def test_another_connection_deletes_the_queue(is_first: bool) -> None:
    together = Together()
    consumer, other = consuming(together), together.connect(address="10.0.0.9")
    if is_first:
        delete(other)
        cancel(consumer)
    else:  # as a capture of several hosts may have it
        cancel(consumer)
        delete(other)
    (finding,) = together.findings
    assert (finding.kind, finding.stream, finding.channel) == ("consumer-cancelled", 1, 1)
    assert finding.text == "the broker ended consumer c of queue q: 10.0.0.9:2-b:1 has deleted it"
    assert finding.evidence[0] == RecordNumber("server", 5, 2)


def test_no_cause_is_seen() -> None:
    together = Together()
    consumer = consuming(together)
    cancel(consumer)
    cancelled_ns = consumer.ts_ns
    together.look()
    assert together.findings == []
    together.later(2)
    together.look()
    (finding,) = together.findings
    assert finding.text.startswith("the broker ended consumer c of queue q: no queue.delete was seen: ")
    assert finding.ts_ns == cancelled_ns


def test_the_connection_ends_right_after() -> None:
    together = Together()
    consumer = consuming(together)
    cancel(consumer)
    consumer.close()
    assert together.kinds == ["consumer-cancelled"]


@pytest.mark.parametrize(
    "properties", [None, {"capabilities": {}}, {"capabilities": {"consumer_cancel_notify": False}}]
)
def test_a_client_that_is_not_told(properties: dict[str, Any] | None) -> None:
    together = Together()
    consuming(together, properties)
    delete(together.connect(address="10.0.0.9"))
    (finding,) = together.findings
    assert finding.stream == 1
    assert finding.text.endswith(
        "has deleted it; the client is not told, since it lacks the capability consumer_cancel_notify"
    )


def test_another_queue_is_deleted() -> None:
    together = Together()
    consuming(together, None)
    delete(together.connect(), "other")
    delete(together.connect(vhost="other"))
    assert together.findings == []


@pytest.mark.parametrize("properties", [TELLS, None])
def test_a_client_that_deletes_its_own_queue(properties: dict[str, Any] | None) -> None:
    together = Together()
    consumer = consuming(together, properties)
    delete(consumer)
    if properties:
        cancel(consumer)
    assert together.findings == []


def test_a_client_that_has_ended_its_consumer() -> None:
    together = Together()
    consumer = consuming(together, None)
    consumer.ask(BasicCancel("c"), BasicCancelOk("c"))
    delete(together.connect())
    assert together.findings == []


@pytest.mark.parametrize("is_connection", [True, False])
def test_a_consumer_that_ended_with_its_channel(is_connection: bool) -> None:
    together = Together()
    consumer = consuming(together, None)
    if is_connection:
        consumer.close()
    else:
        consumer.ask(ChannelClose(200, "bye"), ChannelCloseOk())
    delete(together.connect())
    assert together.findings == []


def opened() -> ConnectionOpened:
    """An opening of 0-10, whose clients announce no capabilities."""
    return ConnectionOpened(
        ts_ns=0,
        virtual_host="/",
        mechanism="PLAIN",
        user="guest",
        client_properties={},
        server_properties={},
        channel_max=10,
        frame_max=65535,
        heartbeat=60,
        latency_ns=0,
    )


def answered(ts_ns: int, request: Any) -> RequestAnswered:
    return RequestAnswered(
        ts_ns=ts_ns, channel=1, epoch=1, sender=CLIENT, request=request, reply=SessionCompleted(), latency_ns=1
    )


def ended(code: int, text: str, by: Peer = SERVER) -> ChannelClosed:
    return ChannelClosed(ts_ns=5, channel=1, epoch=1, by=by, code=code, text=text)


@pytest.mark.parametrize(
    ("text", "is_first"),
    [("the queue 'q' is deleted", True), ("the queue 'q' is deleted", False), ("resource-deleted", True)],
)
def test_a_session_of_0_10_ends_with_its_queue(text: str, is_first: bool) -> None:
    together = Together()
    consumer, other = (ConnectionPlace(number, f"a:{number}-b:1") for number in (1, 2))
    steps: list[tuple[ConnectionPlace, TraceEvent]] = [(consumer, opened()), (other, opened())]
    for queue in ("q", "p"):
        steps.append((consumer, answered(1, MessageSubscribe(queue=queue, destination=f"to-{queue}"))))
    ending = [(other, answered(5, Amqp010QueueDelete(queue="q"))), (consumer, ended(408, text))]
    steps += ending if is_first else ending[::-1]
    for place, event in steps:
        together.findings += together.inspector.inspect(place, [event], None)
    assert together.findings[0].text == "the broker ended consumer to-q of queue q: a:2-b:1 has deleted it"
    together.later(60)
    together.look()
    assert len(together.findings) == 1


def test_a_broker_of_0_10_that_says_nothing() -> None:
    """Broker-J leaves the session open; there is no capability that the client could lack."""
    together = Together()
    consumer, other = (ConnectionPlace(number, f"a:{number}-b:1") for number in (1, 2))
    subscribe, delete_queue = MessageSubscribe(queue="q", destination="d"), Amqp010QueueDelete(queue="q")
    for place, event in (
        (consumer, opened()),
        (other, opened()),
        (consumer, answered(1, subscribe)),
        (other, answered(5, delete_queue)),
    ):
        together.findings += together.inspector.inspect(place, [event], None)
    (finding,) = together.findings
    assert finding.text == "the broker ended consumer d of queue q: a:2-b:1 has deleted it"


@pytest.mark.parametrize("close", [ended(404, "not-found"), ended(0, ""), ended(408, "", CLIENT)])
def test_other_ends_of_a_session_are_no_cancellation(close: ChannelClosed) -> None:
    together = Together()
    consumer = ConnectionPlace(1, "a:1-b:1")
    for event in (opened(), answered(1, MessageSubscribe(queue="q", destination="d")), close):
        together.findings += together.inspector.inspect(consumer, [event], None)
    together.later(60)
    together.look()
    assert together.kinds == []
