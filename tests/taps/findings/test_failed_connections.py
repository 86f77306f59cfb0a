"""Connections that the broker closed with an error."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicPublish, ChannelClose, ChannelCloseOk, ConnectionClose, ExchangeDeclare
from tests.taps.findings.inspected import Inspected


def test_a_frame_on_a_channel_that_is_closed() -> None:
    inspected = Inspected(1)
    inspected.client(ChannelClose(200, "bye"))
    inspected.server(ChannelCloseOk())
    inspected.client(BasicPublish(exchange="e"))
    inspected.server(ConnectionClose(504, "CHANNEL_ERROR - expected 'channel.open'", 60, 40), channel=0)
    assert [(each.kind, each.text) for each in inspected.findings] == [
        ("frame-after-close", "504 CHANNEL_ERROR - expected 'channel.open' after basic.publish")
    ]


def test_what_the_client_sends_before_it_knows_of_a_close_is_no_mistake() -> None:
    inspected = Inspected(1)
    inspected.server(ChannelClose(404, "NOT_FOUND - no queue 'q' in vhost '/'", 50, 10))
    inspected.client(BasicPublish(exchange="e"), ChannelCloseOk())
    assert inspected.kinds == ["channel-error"]


def test_an_error_of_the_connection() -> None:
    inspected = Inspected(1)
    inspected.client(ExchangeDeclare(exchange="e", type="none"))
    inspected.server(ConnectionClose(503, "COMMAND_INVALID - unknown exchange type 'none'", 40, 10), channel=0)
    assert [(each.kind, each.text) for each in inspected.findings] == [
        ("connection-error", "503 COMMAND_INVALID - unknown exchange type 'none' after exchange.declare")
    ]


@pytest.mark.parametrize("code", [0, 200, 320])
def test_a_broker_that_stops_is_no_error_of_the_client(code: int) -> None:
    inspected = Inspected(1)
    inspected.server(ConnectionClose(code, "CONNECTION_FORCED - shutdown"), channel=0)
    assert inspected.kinds == []


def test_a_client_that_closes_is_none() -> None:
    inspected = Inspected(1)
    inspected.client(ConnectionClose(504, "why not"), channel=0)
    assert inspected.kinds == []
