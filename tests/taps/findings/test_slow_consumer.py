"""One consumer that holds up the others of its channel."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicAck, BasicDeliver
from tests.taps.findings.inspected import Inspected


@pytest.mark.parametrize(("seconds", "kinds"), [(0.5, ["slow-consumer"]), (0.01, [])])
def test_two_consumers_of_one_channel(seconds: float, kinds: list[str]) -> None:
    inspected = Inspected(1)
    inspected.consuming(tag="fast")
    inspected.consuming(tag="slow")
    for tag in range(1, 60, 2):
        inspected.server(BasicDeliver("fast", tag, False, "e", "k"), BasicDeliver("slow", tag + 1, False, "e", "k"))
        inspected.client(BasicAck(tag))
        inspected.later(seconds)
        inspected.client(BasicAck(tag + 1))
    assert inspected.kinds == kinds


def test_consumers_that_are_all_slow() -> None:
    inspected = Inspected(1)
    inspected.consuming(tag="one")
    inspected.consuming(tag="other")
    for tag in range(1, 60, 2):
        inspected.server(BasicDeliver("one", tag, False, "e", "k"), BasicDeliver("other", tag + 1, False, "e", "k"))
        inspected.later(1)
        inspected.client(BasicAck(tag), BasicAck(tag + 1))
    assert inspected.kinds == []
