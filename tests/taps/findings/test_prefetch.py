"""Consumers without a prefetch."""

from __future__ import annotations

from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
)
from tests.taps.findings.inspected import Inspected


def test_a_consumer_that_acknowledges_without_a_prefetch() -> None:
    inspected = Inspected(1)
    inspected.consuming(prefetch=0)
    assert [(each.kind, each.text) for each in inspected.findings] == [
        ("unlimited-prefetch", "a consumer of queue q has no prefetch limit")
    ]


def test_a_prefetch_of_zero_is_none() -> None:
    inspected = Inspected(1)
    inspected.client(BasicQos(prefetch_count=0))
    inspected.server(BasicQosOk())
    inspected.client(BasicConsume(queue="q", consumer_tag="c", no_wait=True))
    assert inspected.kinds == ["unlimited-prefetch"]


def test_with_a_prefetch_or_without_acknowledgements_it_is_right() -> None:
    inspected = Inspected(1, 2)
    inspected.consuming(prefetch=10)
    inspected.client(BasicConsume(queue="q", consumer_tag="c", no_ack=True, no_wait=True), channel=2)
    assert inspected.kinds == []


def test_joined_in_the_middle_the_prefetch_is_not_known() -> None:
    inspected = Inspected(joined=True)
    inspected.client(BasicConsume(queue="q", consumer_tag="c", no_wait=True))
    assert inspected.kinds == []


def test_the_prefetch_of_a_closed_channel_is_not_that_of_the_next_one_with_its_number() -> None:
    """The client closed the channel before the broker answered basic.qos."""
    inspected = Inspected(1)
    inspected.client(BasicQos(prefetch_count=10))
    inspected.client(ChannelClose(200, "", 0, 0))
    inspected.server(BasicQosOk())
    inspected.server(ChannelCloseOk())
    inspected.client(ChannelOpen())
    inspected.server(ChannelOpenOk())
    inspected.client(BasicConsume(queue="q", consumer_tag="c", no_wait=True))
    assert inspected.kinds == ["unlimited-prefetch"]
