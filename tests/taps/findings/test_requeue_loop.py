"""Messages that go back and forth."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicAck, BasicDeliver, BasicNack, BasicReject, Method
from amqproxy.taps.findings.requeue_loop import IN_A_ROW
from tests.taps.findings.inspected import Inspected


def deliver(inspected: Inspected, tag: int, settle: Method, *, redelivered: bool = True) -> None:
    inspected.server(BasicDeliver("c", tag, redelivered, "e", "k"))
    inspected.client(settle)


@pytest.mark.parametrize("refuse", [BasicNack, BasicReject])
def test_a_loop(refuse: type[Method]) -> None:
    inspected = Inspected(1)
    inspected.consuming()
    for tag in range(1, IN_A_ROW + 2):
        deliver(inspected, tag, refuse(delivery_tag=tag, requeue=True), redelivered=tag > 1)
    assert inspected.kinds == ["requeue-loop"]


@pytest.mark.parametrize(
    "other", [BasicAck(delivery_tag=10), BasicNack(delivery_tag=10, requeue=False), BasicReject(10, requeue=False)]
)
def test_what_comes_to_an_end_is_no_loop(other: Method) -> None:
    inspected = Inspected(1)
    inspected.consuming()
    for tag in range(1, IN_A_ROW + 5):
        deliver(inspected, tag, other if tag == 10 else BasicNack(delivery_tag=tag, requeue=True))
    assert inspected.kinds == []


def test_new_messages_that_are_requeued_once_are_no_loop() -> None:
    inspected = Inspected(1)
    inspected.consuming()
    for tag in range(1, 3 * IN_A_ROW):
        deliver(inspected, tag, BasicNack(delivery_tag=tag, requeue=True), redelivered=False)
    assert inspected.kinds == []
