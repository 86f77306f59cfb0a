"""Channels that are opened and left."""

from __future__ import annotations

from amqproxy.amqp091.methods import ChannelClose, ChannelCloseOk, ChannelOpen, ChannelOpenOk
from amqproxy.taps.findings.leaked_channels import MANY
from tests.taps.findings.inspected import Inspected


def test_very_many_open_channels() -> None:
    inspected = Inspected()
    for number in range(1, MANY + 20):  # asked for, but not open yet
        inspected.client(ChannelOpen(), channel=number)
    for number in range(1, MANY):
        inspected.server(ChannelOpenOk(), channel=number)
    assert inspected.kinds == []
    for number in range(MANY, MANY + 20):
        inspected.server(ChannelOpenOk(), channel=number)
    assert [(each.kind, each.text) for each in inspected.findings] == [("leaked-channels", f"{MANY} channels are open")]


def test_channels_that_are_closed_do_not_count() -> None:
    inspected = Inspected()
    for number in range(1, 3 * MANY):
        inspected.client(ChannelOpen(), channel=number)
        inspected.server(ChannelOpenOk(), channel=number)
        inspected.client(ChannelClose(), channel=number)
        inspected.server(ChannelCloseOk(), channel=number)
    assert inspected.kinds == []
