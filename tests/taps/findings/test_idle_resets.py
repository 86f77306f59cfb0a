"""Connections that something between the peers has dropped since nothing passed for a while."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicPublish, QueueDeclare, QueueDeclareOk
from tests.taps.findings.inspected import Inspected, agreed


def idle(heartbeat: int, seconds: int) -> Inspected:
    inspected = agreed(heartbeat)
    inspected.later(seconds)
    return inspected


def test_a_reset_while_nothing_passes() -> None:
    inspected = idle(0, 3600)
    inspected.trace.end(inspected.ts_ns, "server reset the connection")
    assert [(each.kind, each.text) for each in inspected.findings] == [
        ("idle-reset", "reset after nothing had passed for 3600 s; heartbeats are off")
    ]


def test_a_reset_that_answers_the_first_frame_after_it() -> None:
    inspected = idle(0, 3600)
    inspected.client(QueueDeclare(queue="q"))
    inspected.trace.end(inspected.ts_ns, "server reset the connection")
    assert inspected.kinds == ["idle-reset"]


def test_a_connection_that_has_gone_on_since() -> None:
    inspected = idle(0, 3600)
    inspected.client(QueueDeclare(queue="q", durable=True))
    inspected.server(QueueDeclareOk("q", 0, 0))
    inspected.trace.end(inspected.ts_ns, "server reset the connection")
    assert inspected.kinds == []


@pytest.mark.parametrize(
    ("heartbeat", "seconds", "reason"),
    [
        (0, 59, "server reset the connection"),
        (0, 3600, "client closed without connection.close"),
        (0, 3600, "the capture ends"),
        (1800, 3500, "server reset the connection"),
    ],
)
def test_other_ends(heartbeat: int, seconds: int, reason: str) -> None:
    inspected = idle(heartbeat, seconds)
    inspected.trace.end(inspected.ts_ns, reason)
    assert "idle-reset" not in inspected.kinds


def test_publishes_that_go_on() -> None:
    inspected = agreed(0)
    for _ in range(10):
        inspected.later(50)
        inspected.client(BasicPublish())
    inspected.trace.end(inspected.ts_ns, "server reset the connection")
    assert "idle-reset" not in inspected.kinds
