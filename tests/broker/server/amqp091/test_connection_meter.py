"""What is counted of a broker's connection, as Prometheus has it."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from amqproxy.amqp091.frame import encode_frame, encode_method
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicPublish,
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionOpenOk,
)
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.broker.server.amqp091.connection_meter import Amqp091ConnectionMeter
from amqproxy.broker.server.connection_tap import ConnectionTap
from amqproxy.taps.metrics import Metrics

PUBLISH = encode_method(1, BasicPublish()) + encode_frame(2, 1, ContentHeader(4, Properties()).encode())
MESSAGE = PUBLISH + encode_frame(3, 1, b"body")


class Counted:
    """A connection that is counted and shown to nobody."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.tap = ConnectionTap(None, 1, "a:1 -> b:2", is_tls=False, metrics=self.metrics)
        self.tap.received(HEADER)

    def value(self, name: str, **labels: str) -> Any:
        return self.metrics.registry.get_sample_value(f"amqproxy_{name}", labels)


def test_messages_and_frames() -> None:
    counted = Counted()
    counted.tap.received(encode_method(1, ChannelOpen()))
    counted.tap.sent([encode_method(0, ConnectionOpenOk()) + encode_method(1, ChannelOpenOk())])
    counted.tap.received(encode_method(1, ConfirmSelect()))
    counted.tap.sent([encode_method(1, ConfirmSelectOk())])
    data = MESSAGE * 2
    for start in range(0, len(data), 7):  # however it comes
        counted.tap.received(data[start : start + 7])
    assert counted.tap.meter is not None
    channel = counted.tap.meter.channel(1)
    assert channel is not None
    assert channel.unconfirmed == 2
    counted.tap.sent([encode_method(1, BasicAck(1))])
    assert (channel.unconfirmed, counted.value("messages_unconfirmed")) == (1, 1)
    assert counted.value("frames_total", sender="client", type="method", method="basic.publish") == 2
    assert (counted.value("messages_published_total"), counted.value("messages_confirmed_total")) == (2, 1)
    assert (counted.value("connections_opened_total"), counted.value("channels_opened_total")) == (1, 1)
    counted.tap.ended("gone")
    counted.tap.ended("gone")
    assert counted.value("messages_unconfirmed") == 0
    assert counted.value("connection_closes_total", by="client", code="none") == 1


def test_how_connections_and_channels_end() -> None:
    counted = Counted()
    counted.tap.sent([encode_method(1, ChannelClose(404, "no queue", 0, 0))])
    counted.tap.sent([encode_method(0, ConnectionClose(403, "no", 0, 0))])  # before open-ok: a login that is refused
    counted.tap.received(encode_method(0, ConnectionClose(200, "too late", 0, 0)))
    counted.tap.received(b"\xff" * 8)
    counted.tap.ended("gone")
    assert counted.value("channel_closes_total", by="server", code="404") == 1
    assert counted.value("connection_closes_total", by="server", code="403") == 1
    assert counted.value("connection_closes_total", by="client", code="200") is None
    assert counted.value("authentication_failures_total") == 1
    assert counted.value("protocol_errors_total", sender="client", code="501") == 1


def test_a_failure_to_count_is_one_line_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("cannot count")

    counted = Counted()
    counted.tap.received(encode_method(1, ChannelOpen()))
    monkeypatch.setattr(Amqp091ConnectionMeter, "count", fail)
    with capture_logs() as logs:
        counted.tap.received(MESSAGE)
    assert [each["event"] for each in logs if each["log_level"] == "error"] == ["connection not counted"]
    assert counted.tap.meter is not None
    assert counted.tap.meter.channel(1) is None
    counted.tap.ended("gone")
    assert counted.value("connection_closes_total", by="client", code="none") == 1
