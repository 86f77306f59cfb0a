"""Limits that a client and a broker cannot agree on."""

from __future__ import annotations

import pytest

from amqproxy.amqp010 import controls
from amqproxy.amqp091.methods import (
    ConnectionClose,
    ConnectionOpen,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from amqproxy.peer import CLIENT, SERVER
from tests.taps.findings.amqp010.inspected import InspectedAmqp010
from tests.taps.findings.inspected import Inspected
from tests.taps.trace.amqp010.traced import START

TEXT = "NOT_ALLOWED - negotiated frame_max = 100 is lower than the minimum allowed value (4096)"


def tuned() -> Inspected:
    inspected = Inspected(joined=True)
    inspected.trace.feed_protocol_header(0)
    inspected.server(ConnectionStart(), channel=0)
    inspected.client(ConnectionStartOk(), channel=0)
    inspected.server(ConnectionTune(), channel=0)
    return inspected


def answered() -> Inspected:
    inspected = tuned()
    inspected.client(ConnectionTuneOk(channel_max=2047, frame_max=100, heartbeat=60), channel=0)
    return inspected


def test_a_broker_that_refuses_limits() -> None:
    inspected = answered()
    inspected.server(ConnectionClose(530, TEXT, 10, 31), channel=0)
    assert [(each.kind, each.text) for each in inspected.findings] == [
        ("tuning-refused", f"530 {TEXT}; the client asked for channel_max=2047, frame_max=100, heartbeat=60")
    ]


def test_a_broker_that_only_ends_the_connection() -> None:
    inspected = answered()
    inspected.client(ConnectionOpen("/"), channel=0)
    inspected.trace.end(inspected.ts_ns, "server closed without connection.close")
    assert [(each.kind, each.text) for each in inspected.findings] == [
        (
            "tuning-refused",
            "the server ended the connection after connection.tune without connection.close; the client asked for "
            "channel_max=2047, frame_max=100, heartbeat=60",
        )
    ]


def test_a_client_that_leaves_when_it_has_seen_the_limits() -> None:
    inspected = tuned()
    inspected.trace.end(inspected.ts_ns, "client closed without connection.close")
    assert [(each.kind, each.text) for each in inspected.findings] == [
        ("tuning-refused", "the client ended the connection after connection.tune without connection.close")
    ]


def test_limits_that_the_proxy_refuses() -> None:
    inspected = tuned()
    inspected.trace.gap(CLIENT, inspected.ts_ns, "530 NOT_ALLOWED: tune-ok takes channel_max 0")
    reason = (
        "the client broke the protocol: 530 NOT_ALLOWED: tune-ok takes channel_max 0, where the server offered 2047"
    )
    inspected.trace.end(inspected.ts_ns, reason)
    assert [(each.kind, each.text) for each in inspected.findings] == [
        ("tuning-refused", "530 NOT_ALLOWED: tune-ok takes channel_max 0, where the server offered 2047")
    ]


def test_a_capture_that_ends_there() -> None:
    inspected = answered()
    inspected.trace.end(inspected.ts_ns, "the capture ends")
    assert inspected.kinds == []


def test_a_virtual_host_that_is_not_there() -> None:
    inspected = answered()
    inspected.client(ConnectionOpen("/none"), channel=0)
    inspected.server(ConnectionClose(530, "NOT_ALLOWED - vhost /none not found", 10, 40), channel=0)
    assert inspected.kinds == ["connection-error"]


@pytest.mark.parametrize("reason", ["server reset the connection", "client closed without connection.close"])
def test_a_connection_that_was_open(reason: str) -> None:
    inspected = Inspected(1)
    inspected.trace.end(inspected.ts_ns, reason)
    assert inspected.kinds == []


def test_a_client_of_0_10_that_leaves() -> None:
    inspected = InspectedAmqp010(joined=True)
    inspected.trace.feed_protocol_header(0)
    for sender, control in START[:3]:
        inspected.feed(sender, control, channel=0)
    inspected.trace.end(inspected.ts_ns, "client reset the connection")
    assert inspected.kinds == ["tuning-refused"]


def test_a_broker_of_0_10_that_refuses_limits() -> None:
    inspected = InspectedAmqp010(joined=True)
    inspected.trace.feed_protocol_header(0)
    for sender, control in START[:3]:
        inspected.feed(sender, control, channel=0)
    inspected.feed(CLIENT, controls.ConnectionTuneOk(channel_max=99, max_frame_size=100, heartbeat=0), channel=0)
    inspected.feed(SERVER, controls.ConnectionClose(reply_code=320, reply_text="invalid"), channel=0)
    assert inspected.kinds == ["tuning-refused"]
