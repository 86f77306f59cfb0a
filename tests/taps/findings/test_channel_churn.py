"""Channels for one message each."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import (
    BasicGet,
    BasicGetEmpty,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
)
from tests.taps.findings.inspected import Inspected


def use(inspected: Inspected, publishes: int, gets: int = 0) -> None:
    inspected.client(ChannelOpen())
    inspected.server(ChannelOpenOk())
    inspected.client(*[BasicPublish()] * publishes)
    for _ in range(gets):
        inspected.client(BasicGet(queue="q"))
        inspected.server(BasicGetEmpty())
    inspected.client(ChannelClose())
    inspected.server(ChannelCloseOk())


@pytest.mark.parametrize(
    ("times", "publishes", "gets", "kinds"),
    [
        (10, 1, 0, ["channel-per-message"]),
        (10, 0, 1, ["channel-per-message"]),
        (9, 1, 0, []),
        (20, 2, 0, []),
        (20, 0, 0, []),
    ],
)
def test_channels_in_a_row(times: int, publishes: int, gets: int, kinds: list[str]) -> None:
    inspected = Inspected()
    for _ in range(times):
        use(inspected, publishes, gets)
    assert inspected.kinds == kinds


def test_a_channel_that_is_used_more_interrupts_the_row() -> None:
    inspected = Inspected()
    for count in range(1, 30):
        use(inspected, 2 if count % 10 == 0 else 1)
    assert inspected.kinds == []
