"""Queues that are asked again and again."""

from __future__ import annotations

from amqproxy.amqp091.methods import BasicGet, BasicGetEmpty, BasicGetOk
from amqproxy.taps.findings.polling import IN_A_ROW
from tests.taps.findings.inspected import Inspected


def get(inspected: Inspected, tag: int = 0) -> None:
    inspected.client(BasicGet(queue="q", no_ack=True))
    inspected.server(BasicGetOk(tag, False, "e", "k", 0) if tag else BasicGetEmpty())


def test_empty_answers() -> None:
    inspected = Inspected(1)
    for _ in range(IN_A_ROW - 1):
        get(inspected)
    assert inspected.kinds == []
    get(inspected)
    assert [(each.kind, each.text) for each in inspected.findings] == [
        ("get-polling", f"basic.get has found queue q empty; {IN_A_ROW} empty answers so far")
    ]


def test_gets_that_get_something() -> None:
    inspected = Inspected(1)
    for tag in range(1, 5 * IN_A_ROW):
        get(inspected, tag)
    assert inspected.kinds == []
