"""Deliveries that pile up at a client."""

from __future__ import annotations

from amqproxy.amqp091.methods import BasicAck, BasicDeliver
from amqproxy.taps.findings.unacked import MANY
from tests.taps.findings.inspected import Inspected


def deliver(inspected: Inspected, first: int, last: int) -> None:
    inspected.server(*(BasicDeliver("c", tag, False, "e", "k") for tag in range(first, last + 1)))


def test_very_many_open_deliveries() -> None:
    inspected = Inspected(1)
    inspected.consuming()
    deliver(inspected, 1, MANY - 1)
    assert inspected.kinds == []
    deliver(inspected, MANY, MANY)
    assert [(each.kind, each.text) for each in inspected.findings] == [
        ("unacked-growth", f"{MANY} deliveries are open")
    ]


def test_what_is_acked_in_between_does_not_pile_up() -> None:
    inspected = Inspected(1)
    inspected.consuming()
    for first in range(1, 2 * MANY, MANY // 2):
        deliver(inspected, first, first + MANY // 2 - 1)
        inspected.client(BasicAck(0, multiple=True))
    assert inspected.kinds == []
