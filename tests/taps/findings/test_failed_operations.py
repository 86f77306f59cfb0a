"""Channels that the broker closed with an error."""

from __future__ import annotations

from amqproxy.amqp091.methods import BasicAck, ChannelClose, QueueDeclare
from tests.taps.findings.inspected import Inspected


def test_an_error() -> None:
    inspected = Inspected(1)
    inspected.client(QueueDeclare(queue="q", passive=True))
    inspected.server(ChannelClose(404, "NOT_FOUND - no queue 'q' in vhost '/'", 50, 10))
    assert [(each.kind, each.text) for each in inspected.findings] == [
        ("channel-error", "404 NOT_FOUND - no queue 'q' in vhost '/' after queue.declare")
    ]


def test_a_client_that_closes_is_none() -> None:
    inspected = Inspected(1, 2)
    inspected.client(ChannelClose(200, "bye"))
    inspected.client(ChannelClose(404, "why not"), channel=2)
    assert inspected.kinds == []


def test_an_unknown_tag_is_found_but_once() -> None:
    inspected = Inspected(1)
    inspected.client(BasicAck(1))
    inspected.server(ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 1", 60, 80))
    assert inspected.kinds == ["unknown-ack"]
