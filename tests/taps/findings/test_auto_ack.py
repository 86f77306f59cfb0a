"""Durable queues that are consumed without acknowledgements."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicGet, BasicGetOk, QueueDeclare, QueueDeclareOk
from tests.taps.findings.inspected import Inspected


@pytest.mark.parametrize(
    ("declare", "no_ack", "kinds"),
    [
        (QueueDeclare(queue="q", durable=True), True, ["auto-ack"]),
        (QueueDeclare(queue="q", durable=True), False, []),
        (QueueDeclare(queue="q"), True, []),
        (QueueDeclare(queue="q", durable=True, exclusive=True), True, []),
        (QueueDeclare(queue="q", durable=True, passive=True), True, []),
    ],
)
def test_a_consumer(declare: QueueDeclare, no_ack: bool, kinds: list[str]) -> None:
    inspected = Inspected(1)
    inspected.client(declare)
    inspected.server(QueueDeclareOk("q", 0, 0))
    inspected.consuming(no_ack=no_ack)
    assert inspected.kinds == kinds


def test_a_get() -> None:
    inspected = Inspected(1)
    inspected.client(QueueDeclare(durable=True))
    inspected.server(QueueDeclareOk("amq.gen-1", 0, 0))
    inspected.client(BasicGet(queue="amq.gen-1", no_ack=True))
    inspected.server(BasicGetOk(1, False, "e", "k", 0))
    assert inspected.kinds == ["auto-ack"]
