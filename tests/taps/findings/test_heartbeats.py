"""Connections whose end may go unnoticed."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import (
    BasicPublish,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionTuneOk,
)
from tests.taps.findings.inspected import Inspected


def agreed(heartbeat: int) -> Inspected:
    inspected = Inspected(joined=True)
    inspected.trace.feed_protocol_header(0)
    inspected.client(ConnectionTuneOk(heartbeat=heartbeat), ConnectionOpen("/"), channel=0)
    inspected.server(ConnectionOpenOk(), channel=0)
    inspected.client(ChannelOpen())
    inspected.server(ChannelOpenOk())
    return inspected


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
