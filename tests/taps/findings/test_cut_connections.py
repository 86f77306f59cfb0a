"""Connections that ended without connection.close while messages were open."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicAck, BasicDeliver, BasicPublish, ConnectionClose
from tests.taps.findings.amqp010.inspected import InspectedAmqp010
from tests.taps.findings.inspected import Inspected


def busy() -> Inspected:
    inspected = Inspected(1, 2)
    inspected.confirming(2)
    inspected.consuming()
    inspected.client(*[BasicPublish()] * 2, channel=2)
    inspected.server(*[BasicDeliver("c", tag, False, "e", "k") for tag in (1, 2, 3)])
    return inspected


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("server reset the connection", "the server reset the connection"),
        ("client closed without connection.close", "the client ended the connection"),
    ],
)
def test_an_end_with_messages_open(reason: str, text: str) -> None:
    inspected = busy()
    inspected.trace.end(inspected.ts_ns, reason)
    assert [(each.kind, each.text) for each in inspected.findings] == [
        ("connection-cut", f"{text} without connection.close, with 2 publishes and 3 deliveries open")
    ]


def test_the_capture_may_end_at_any_time() -> None:
    inspected = busy()
    inspected.trace.end(inspected.ts_ns, "the capture ends")
    assert inspected.kinds == []


def test_nothing_is_open() -> None:
    inspected = busy()
    inspected.client(BasicAck(0, multiple=True))
    inspected.server(BasicAck(2, multiple=True), channel=2)
    inspected.trace.end(inspected.ts_ns, "client closed without connection.close")
    assert inspected.kinds == []


def test_a_close_in_good_order() -> None:
    inspected = busy()
    inspected.client(ConnectionClose(200, "bye"), channel=0)
    inspected.trace.end(inspected.ts_ns, "client closed without connection.close")
    assert inspected.kinds == []


def test_missed_heartbeats_are_one_finding() -> None:
    inspected = busy()
    inspected.later(13)
    inspected.trace.facts.heartbeat = 6
    inspected.trace.end(inspected.ts_ns, "server reset the connection")
    assert inspected.kinds == ["missed-heartbeats"]


def test_deliveries_of_0_10() -> None:
    inspected = InspectedAmqp010()
    inspected.subscribe()
    inspected.deliver()
    inspected.trace.end(inspected.ts_ns, "client reset the connection")
    assert inspected.kinds == ["connection-cut"]
