"""Channels that are opened again though the broker's channel.close was not answered."""

from __future__ import annotations

from amqproxy.amqp091.methods import ChannelClose, ChannelCloseOk, ChannelOpen, ConnectionClose, QueueDeclare
from tests.taps.findings.inspected import Inspected

NOT_FOUND = ChannelClose(404, "NOT_FOUND - no queue 'q' in vhost '/'", 50, 10)
SECOND_OPEN = ConnectionClose(504, "CHANNEL_ERROR - second 'channel.open' seen", 20, 10)


def test_the_missing_close_ok_is_the_cause() -> None:
    inspected = Inspected(1, 2)
    inspected.client(QueueDeclare(queue="q", passive=True))
    inspected.server(NOT_FOUND)
    inspected.client(ChannelOpen())
    inspected.server(SECOND_OPEN, channel=0)
    assert inspected.kinds == ["channel-error", "missing-close-ok"]
    text = "channel.open on channel 1 without channel.close-ok before: 504 CHANNEL_ERROR - second 'channel.open' seen"
    assert inspected.findings[-1].text == text


def test_a_channel_that_is_opened_twice_lacks_none() -> None:
    inspected = Inspected(1)
    inspected.client(ChannelOpen())
    inspected.server(SECOND_OPEN, channel=0)
    assert inspected.kinds == ["frame-after-close"]


def test_close_ok_before_the_next_open_is_right() -> None:
    inspected = Inspected(1)
    inspected.server(NOT_FOUND)
    inspected.client(ChannelCloseOk(), ChannelOpen(), ChannelOpen())
    inspected.server(SECOND_OPEN, channel=0)
    assert inspected.kinds == ["channel-error", "frame-after-close"]
