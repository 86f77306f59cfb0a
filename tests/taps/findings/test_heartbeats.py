"""Connections whose end may go unnoticed."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.frame import HEARTBEAT_FRAME, Frame
from amqproxy.amqp091.methods import (
    BasicPublish,
    ConnectionClose,
)
from amqproxy.amqp091.transitions import CLIENT, SERVER
from tests.taps.findings.inspected import Inspected, agreed


@pytest.mark.parametrize(("heartbeat", "kinds"), [(0, ["heartbeats-off"]), (60, [])])
def test_a_consumer_without_heartbeats(heartbeat: int, kinds: list[str]) -> None:
    inspected = agreed(heartbeat)
    assert inspected.kinds == []
    for tag in ("a", "b"):
        inspected.consuming(tag=tag)
    assert inspected.kinds == kinds


@pytest.mark.parametrize(("heartbeat", "kinds"), [(0, ["publisher-heartbeats-off"]), (60, [])])
def test_a_publisher_without_heartbeats(heartbeat: int, kinds: list[str]) -> None:
    inspected = agreed(heartbeat)
    inspected.client(BasicPublish(), BasicPublish())
    assert inspected.kinds == kinds


def test_missed_heartbeats() -> None:
    inspected = Inspected(1)
    inspected.server(ConnectionClose(320, "missed heartbeats from client, timeout: 60s"), channel=0)
    assert inspected.kinds == ["missed-heartbeats"]


def test_another_close() -> None:
    inspected = Inspected(1)
    inspected.server(ConnectionClose(320, "CONNECTION_FORCED - shutdown"), channel=0)
    assert inspected.kinds == []


@pytest.mark.parametrize(
    ("reason", "silent"),
    [("server reset the connection", "client"), ("client closed without connection.close", "server")],
)
def test_heartbeats_that_did_not_come(reason: str, silent: str) -> None:
    inspected = agreed(10)
    inspected.later(20.5)
    inspected.trace.feed(CLIENT if silent == "server" else SERVER, [Frame(HEARTBEAT_FRAME)], inspected.ts_ns)
    inspected.trace.end(inspected.ts_ns, reason)
    ending = reason.split()[0]
    assert [(each.kind, each.text) for each in inspected.findings] == [
        (
            "missed-heartbeats",
            f"the {ending} ended the connection after the {silent} had sent nothing for 20 s; "
            "heartbeats are due every 10 s",
        )
    ]


def test_heartbeats_that_the_proxy_has_missed() -> None:
    inspected = agreed(2)
    inspected.later(4.5)
    inspected.trace.end(inspected.ts_ns, "client missed its heartbeats, of which there is one in 2 s")
    assert [each.text for each in inspected.findings] == [
        "the server ended the connection after the client had sent nothing for 4 s; heartbeats are due every 2 s"
    ]


@pytest.mark.parametrize(
    ("heartbeat", "seconds", "reason"),
    [
        (10, 11, "server reset the connection"),
        (60, 20.5, "server reset the connection"),
        (0, 20.5, "server reset the connection"),
        (10, 20.5, "the capture ends"),
    ],
)
def test_an_end_that_heartbeats_do_not_explain(heartbeat: int, seconds: float, reason: str) -> None:
    inspected = agreed(heartbeat)
    inspected.later(seconds)
    inspected.trace.end(inspected.ts_ns, reason)
    assert inspected.kinds == []
