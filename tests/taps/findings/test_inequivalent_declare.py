"""Declarations that differ from what is there."""

from __future__ import annotations

from amqproxy.amqp091.methods import ChannelClose, QueueDeclare
from tests.taps.findings.inspected import Inspected

TEXT = "inequivalent arg 'durable' for queue 'q' in vhost '/': received 'true' but current is 'false'"


def test_the_difference_is_named() -> None:
    inspected = Inspected(1)
    inspected.client(QueueDeclare(queue="q", durable=True))
    inspected.server(ChannelClose(406, f"PRECONDITION_FAILED - {TEXT}", 50, 10))
    assert [(each.kind, each.text) for each in inspected.findings] == [("inequivalent-declare", TEXT)]


def test_another_failure_of_a_declare() -> None:
    inspected = Inspected(1)
    inspected.client(QueueDeclare(queue="q", durable=True))
    inspected.server(ChannelClose(403, "ACCESS_REFUSED", 50, 10))
    assert inspected.kinds == ["channel-error"]
