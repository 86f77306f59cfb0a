"""Publishes to a broker that has asked for a pause."""

from __future__ import annotations

from amqproxy.amqp091.methods import BasicPublish, ConnectionBlocked, ConnectionUnblocked
from tests.taps.findings.inspected import Inspected


def test_a_publish_while_blocked() -> None:
    inspected = Inspected(1)
    inspected.server(ConnectionBlocked("low on memory"), channel=0)
    inspected.client(BasicPublish())  # it may have been under way
    assert inspected.kinds == []
    inspected.later(2)
    inspected.client(BasicPublish())
    assert inspected.kinds == ["publish-while-blocked"]


def test_a_publish_after_unblocked() -> None:
    inspected = Inspected(1)
    inspected.server(ConnectionBlocked("low on memory"), channel=0)
    inspected.later(2)
    inspected.server(ConnectionUnblocked(), channel=0)
    inspected.client(BasicPublish())
    assert inspected.kinds == []
