"""Acknowledgements of deliveries that are not open."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicNack,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    Method,
)
from tests.taps.findings.inspected import Inspected


def deliveries(*tags: int) -> list[Method]:
    return [BasicDeliver("c", tag, False, "e", "k") for tag in tags]


@pytest.mark.parametrize(
    ("settle", "text"),
    [
        (BasicAck(1), "delivery tag 1 is acked though it is not open: settled before, or auto-acked"),
        (BasicReject(1), "delivery tag 1 is rejected though it is not open: settled before, or auto-acked"),
        (BasicNack(9), "delivery tag 9 is nacked, and there was no such delivery on the channel"),
    ],
)
def test_a_tag_that_is_not_open(settle: Method, text: str) -> None:
    inspected = Inspected(1)
    inspected.consuming()
    inspected.server(*deliveries(1, 2))
    inspected.client(BasicAck(1))
    assert inspected.kinds == []
    inspected.client(settle)
    assert [(each.kind, each.text) for each in inspected.findings] == [("unknown-ack", text)]


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("settle", [BasicAck(0), BasicNack(0), BasicReject(0)])
def test_tag_0_without_multiple_is_never_right(settle: Method, joined: bool) -> None:
    inspected = Inspected(joined=True) if joined else Inspected(1)
    inspected.server(*deliveries(1, 2))
    inspected.findings.clear()
    inspected.client(settle)
    (finding,) = inspected.findings
    assert finding.kind == "unknown-ack"
    assert finding.text.endswith("without multiple: no delivery has that tag")


def test_each_delivery_settled_once_is_right() -> None:
    inspected = Inspected(1)
    inspected.consuming()
    inspected.server(*deliveries(1, 2, 3))
    inspected.client(BasicNack(2), BasicReject(1), BasicAck(0, multiple=True), BasicAck(0, multiple=True))
    assert inspected.kinds == []


def test_tags_begin_anew_with_the_channel() -> None:
    inspected = Inspected(1)
    inspected.consuming()
    inspected.server(*deliveries(1, 2))
    inspected.client(ChannelClose())
    inspected.server(ChannelCloseOk())
    inspected.client(ChannelOpen())
    inspected.server(ChannelOpenOk())
    inspected.client(BasicAck(1))
    assert inspected.findings[-1].text.endswith("there was no such delivery on the channel")


def test_an_ack_on_the_wrong_channel() -> None:
    inspected = Inspected(1, 2)
    inspected.consuming()
    inspected.server(*deliveries(1, 2))
    inspected.client(BasicAck(2), channel=2)
    assert [(each.kind, each.channel, each.text) for each in inspected.findings] == [
        ("ack-on-wrong-channel", 2, "delivery tag 2 is acked on channel 2; it is open on channel 1")
    ]
    inspected.client(BasicAck(2))
    assert len(inspected.findings) == 1


def test_where_it_may_be_open_on_two_channels_it_is_only_unknown() -> None:
    inspected = Inspected(1, 2, 3)
    for channel in (1, 2):
        inspected.client(BasicConsume(queue="q", consumer_tag="c", no_wait=True), channel=channel)
        inspected.server(*deliveries(1), channel=channel)
    inspected.findings.clear()
    inspected.client(BasicAck(1), channel=3)
    assert inspected.kinds == ["unknown-ack"]


def test_joined_in_the_middle_nothing_is_unknown() -> None:
    inspected = Inspected(joined=True)
    inspected.client(BasicAck(17))
    inspected.server(BasicConsumeOk("c"))
    assert inspected.kinds == []


@pytest.mark.parametrize("settle", [BasicAck(9), BasicNack(9), BasicReject(9)])
def test_a_channel_that_is_closed_for_it_is_one_finding(settle: Method) -> None:
    inspected = Inspected(1)
    inspected.consuming()
    inspected.client(settle)
    cls = type(settle)
    inspected.server(ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 9", cls.class_id, cls.method_id))
    assert inspected.kinds == ["unknown-ack"]
