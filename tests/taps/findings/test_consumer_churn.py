"""Consumers for one message each."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicAck, BasicCancel, BasicCancelOk, BasicDeliver
from tests.taps.findings.inspected import Inspected


def consume(inspected: Inspected, tags: range) -> None:
    inspected.consuming()
    for tag in tags:
        inspected.server(BasicDeliver("c", tag, False, "e", "k"))
        inspected.client(BasicAck(tag))
    inspected.client(BasicCancel("c"))
    inspected.server(BasicCancelOk("c"))


@pytest.mark.parametrize(
    ("times", "each", "kinds"),
    [(10, 1, ["consumer-per-message"]), (10, 0, ["consumer-per-message"]), (9, 1, []), (30, 2, [])],
)
def test_consumers_in_a_row(times: int, each: int, kinds: list[str]) -> None:
    inspected = Inspected(1)
    for number in range(times):
        consume(inspected, range(number * each + 1, (number + 1) * each + 1))
    assert inspected.kinds == kinds
