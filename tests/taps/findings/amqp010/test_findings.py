"""What is found on connections of AMQP 0-10, by the detectors of 0-9-1."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from amqproxy.amqp010.commands import (
    ExecutionException,
    MessageCancel,
    MessageFlow,
    MessageReject,
    MessageStop,
    MessageSubscribe,
    QueueDeclare,
)
from amqproxy.amqp010.controls import ConnectionClose, SessionCommandPoint
from amqproxy.amqp091 import methods
from amqproxy.amqp091.frame import encode_method
from amqproxy.peer import SERVER, Peer
from amqproxy.taps.findings.process_detector import ConnectionPlace
from amqproxy.taps.trace.events import TraceEvent
from amqproxy.taps.trace.snapshot import (
    ChannelSnapshot,
    ConnectionSnapshot,
    ConsumerSnapshot,
    DeclarationSnapshot,
    HandshakeSnapshot,
)
from tests.taps.findings.amqp010.inspected import InspectedAmqp010
from tests.taps.findings.inspected_together import Together
from tests.taps.trace.amqp010.traced import TracedAmqp010, ids

INFINITE = 0xFFFFFFFF


def test_a_durable_queue_is_consumed_without_accepts() -> None:
    inspected = InspectedAmqp010()
    inspected.client(QueueDeclare(queue="q", durable=True))
    inspected.subscribe("q", accept_mode=1)
    inspected.complete((0, 1))
    assert inspected.kinds == ["auto-ack"]
    assert inspected.findings[0].text == "message.subscribe with no_ack takes messages of the durable queue q"


def test_credit_without_end_is_no_prefetch_limit() -> None:
    inspected = InspectedAmqp010()
    inspected.subscribe("q", "d")
    inspected.complete(0)
    inspected.give_credit(500, INFINITE)
    assert inspected.kinds == []
    inspected.give_credit(INFINITE, INFINITE)
    assert inspected.kinds == ["unlimited-prefetch"]


def test_credit_is_seen_that_is_given_before_the_subscription_is_answered() -> None:
    inspected = InspectedAmqp010()
    inspected.subscribe("q", "d")
    inspected.give_credit(INFINITE, INFINITE)
    inspected.complete((0, 2))
    assert inspected.kinds == ["unlimited-prefetch"]


def test_a_stop_takes_credit_away() -> None:
    inspected = InspectedAmqp010()
    inspected.subscribe("q", "d")
    inspected.complete(0)
    inspected.client(MessageFlow(destination="d", unit=0, value=INFINITE))
    inspected.client(MessageStop(destination="d"))
    inspected.give_credit(500, INFINITE)
    assert inspected.kinds == []


def test_a_browser_takes_nothing() -> None:
    inspected = InspectedAmqp010()
    inspected.client(QueueDeclare(queue="q", durable=True))
    inspected.client(MessageSubscribe(queue="q", destination="d", accept_mode=1, acquire_mode=1))
    inspected.client(MessageSubscribe(queue="q", destination="e", accept_mode=0, acquire_mode=1))
    inspected.complete((0, 2))
    for destination in "de":
        inspected.client(MessageFlow(destination=destination, unit=0, value=INFINITE))
        inspected.client(MessageFlow(destination=destination, unit=1, value=INFINITE))
    assert inspected.kinds == []


def test_credit_of_what_needs_no_accept_may_be_without_end() -> None:
    inspected = InspectedAmqp010()
    inspected.subscribe("q", "d", accept_mode=1)
    inspected.complete(0)
    inspected.give_credit(INFINITE, INFINITE)
    assert inspected.kinds == []


def test_releases_in_a_loop() -> None:
    inspected = InspectedAmqp010()
    inspected.subscribe()
    for number in range(20):
        inspected.deliver()  # each was delivered before
        inspected.release(number)
    assert inspected.kinds == ["requeue-loop"]


def test_an_accept_of_what_is_not_open() -> None:
    inspected = InspectedAmqp010()
    inspected.subscribe()
    inspected.deliver()
    inspected.accept(0)
    inspected.accept(0)
    assert inspected.kinds == ["unknown-ack"]
    assert "settled before" in inspected.findings[0].text


def test_an_accept_before_the_first_delivery() -> None:
    inspected = InspectedAmqp010()
    inspected.accept(0)
    assert inspected.kinds == ["unknown-ack"]
    assert "there was no such delivery" in inspected.findings[0].text


def test_what_was_missed_is_not_held_against_an_accept() -> None:
    """The hole before the accept's delivery may be noticed later than the accept."""
    inspected = InspectedAmqp010()
    inspected.gap()
    inspected.server(SessionCommandPoint(command_id=0, command_offset=0))
    inspected.deliver()
    inspected.accept((0, 1))
    assert inspected.kinds == []


def test_an_unroutable_publish_is_returned_and_nacked() -> None:
    inspected = InspectedAmqp010()
    inspected.publish(accept_mode=0)
    inspected.server(MessageReject(transfers=ids(0), code=1))
    assert inspected.kinds == ["returned-publish", "nacked-publish"]
    assert inspected.findings[0].text == "exchange default returned a message with routing key 'q': unroutable"


def test_an_exception_is_a_channel_error() -> None:
    inspected = InspectedAmqp010()
    inspected.client(QueueDeclare(queue="q", passive=True))
    inspected.server(ExecutionException(error_code=404, command_id=0, description="none"))
    assert [(each.kind, each.channel, each.text) for each in inspected.findings] == [
        ("channel-error", 1, "404 none after queue.declare")
    ]


def test_a_broker_that_closes_an_open_connection_is_no_refused_login() -> None:
    inspected = InspectedAmqp010()
    inspected.feed(SERVER, ConnectionClose(reply_code=501, reply_text="framing"), channel=0)
    assert inspected.kinds == ["connection-error"]


def test_subscriptions_for_one_message_each() -> None:
    inspected = InspectedAmqp010()
    for number in range(11):
        inspected.subscribe("q", "d")
        inspected.deliver("d")
        inspected.accept(number)
        inspected.client(MessageCancel(destination="d"))
        inspected.complete((0, 3 * number + 2))
    assert inspected.kinds == ["consumer-per-message"]


@pytest.mark.parametrize("queue", ["q", "another"])
def test_a_subscription_of_a_snapshot_consumes_its_queue(queue: str) -> None:
    together, session = Together(), TracedAmqp010(joined=True)
    place = ConnectionPlace(9, "a:1-b:2", "a")

    def inspect(events: Sequence[TraceEvent], sender: Peer | None, number: int) -> None:
        together.findings += together.inspector.inspect(place, events, None)

    session.trace.listen(inspect)
    consumer = ConsumerSnapshot(tag="d", queue=queue)
    declared = DeclarationSnapshot(method=encode_method(0, methods.QueueDeclare(queue="q"))[7:-1], ts_ns=0)
    session.trace.restore(
        ConnectionSnapshot(
            ts_ns=0,
            protocol=session.trace.PROTOCOL,
            handshake=HandshakeSnapshot(virtual_host="/"),
            channels=(ChannelSnapshot(number=1, mode="normal", name=b"s", consumers=(consumer,)),),
            declarations=(declared,),
        )
    )
    session.publish()
    together.later(61)
    together.look()
    assert together.kinds == ([] if queue == "q" else ["unconsumed-queue"])
