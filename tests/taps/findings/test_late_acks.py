"""Acknowledgements near the broker's timeout."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicAck, BasicDeliver, ChannelClose, ChannelCloseOk
from amqproxy.taps.findings.late_acks import NEAR
from tests.taps.findings.inspected import Inspected


@pytest.mark.parametrize(("seconds", "kinds"), [(NEAR - 10, []), (NEAR, ["late-ack"]), (NEAR * 2, ["late-ack"])])
def test_an_ack_after_a_time(seconds: float, kinds: list[str]) -> None:
    inspected = Inspected(1)
    inspected.consuming()
    inspected.server(BasicDeliver("c", 1, False, "e", "k"))
    inspected.later(seconds)
    inspected.client(BasicAck(1))
    assert inspected.kinds == kinds


def test_what_is_never_acked_is_not_late() -> None:
    inspected = Inspected(1)
    inspected.consuming()
    inspected.server(BasicDeliver("c", 1, False, "e", "k"))
    inspected.later(NEAR * 3)
    inspected.client(ChannelClose())
    inspected.server(ChannelCloseOk())
    assert inspected.kinds == []
