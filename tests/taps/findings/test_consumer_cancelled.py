"""Consumers that the broker has ended, and what ended them."""

from __future__ import annotations

from typing import Any

import pytest

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
from amqproxy.taps.findings.finding import RecordNumber
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
