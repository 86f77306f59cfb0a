"""Consumers that have as many deliveries open as they may, and settle none."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.commands import MessageFlow, MessageSetFlowMode
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicDeliver,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ChannelCloseOk,
)
from tests.taps.findings.amqp010.inspected import InspectedAmqp010
from tests.taps.findings.inspected import Inspected


def consuming(prefetch: int, open: int, *, no_ack: bool = False) -> Inspected:
    inspected = Inspected(1)
    inspected.consuming(prefetch=prefetch, no_ack=no_ack)
    inspected.findings.clear()
    inspected.server(*[BasicDeliver("c", tag, False, "e", "k") for tag in range(1, open + 1)])
    return inspected


def test_a_consumer_that_settles_nothing() -> None:
    inspected = consuming(3, 3)
    start_ns = inspected.ts_ns
    inspected.later(61)
    assert inspected.look() == ["consumer c of queue q settled nothing for 60 s: 3 open, prefetch 3"]
    (finding,) = inspected.findings
    assert (finding.kind, finding.channel, finding.evidence) == ("prefetch-exhausted", 1, ())
    assert finding.ts_ns == start_ns + 60_000_000_000
    inspected.later(600)
    assert inspected.look() == []


def test_it_is_seen_before_what_happens_next() -> None:
    inspected = consuming(3, 3)
    inspected.later(100)
    inspected.trace.end(inspected.ts_ns, "the capture ends")
    assert inspected.kinds == ["prefetch-exhausted"]


def test_it_is_found_again_after_something_was_settled() -> None:
    inspected = consuming(2, 2)
    inspected.later(70)
    inspected.client(BasicAck(1))
    inspected.server(BasicDeliver("c", 3, False, "e", "k"))
    inspected.later(70)
    inspected.look()
    assert inspected.kinds == ["prefetch-exhausted"]  # the second time of its kind is counted only
    assert inspected.counts["prefetch-exhausted"] == 2


@pytest.mark.parametrize(("seconds", "found"), [(299, 0), (301, 1)])
def test_one_delivery_may_be_long_work(seconds: int, found: int) -> None:
    inspected = consuming(1, 1)
    inspected.later(seconds)
    assert len(inspected.look()) == found


@pytest.mark.parametrize(("prefetch", "open", "no_ack"), [(3, 2, False), (0, 3, False), (3, 3, True)])
def test_a_consumer_that_may_get_more(prefetch: int, open: int, no_ack: bool) -> None:
    inspected = consuming(prefetch, open, no_ack=no_ack)
    inspected.later(600)
    assert inspected.look() == []


def test_a_consumer_that_settles_now_and_then() -> None:
    inspected = consuming(3, 3)
    for tag in range(1, 10):
        inspected.later(50)
        inspected.client(BasicAck(tag))
        inspected.server(BasicDeliver("c", tag + 3, False, "e", "k"))
    assert inspected.look() == []


def test_a_consumer_that_has_ended() -> None:
    inspected = consuming(3, 3)
    inspected.client(BasicCancel("c"))
    inspected.server(BasicCancelOk("c"))
    inspected.later(600)
    assert inspected.look() == []


def test_a_channel_that_has_ended() -> None:
    inspected = consuming(3, 3)
    inspected.client(ChannelClose(200, "bye"))
    inspected.server(ChannelCloseOk())
    inspected.later(600)
    assert inspected.look() == []


def test_consumers_that_share_a_prefetch() -> None:
    inspected = Inspected(1)
    inspected.client(BasicQos(prefetch_count=2, global_=True))
    inspected.server(BasicQosOk())
    for tag in "ab":
        inspected.consuming(tag=tag, prefetch=0)
    inspected.findings.clear()
    inspected.server(BasicDeliver("a", 1, False, "e", "k"), BasicDeliver("b", 2, False, "e", "k"))
    inspected.later(61)
    assert inspected.look() == ["the channel's consumers settled nothing for 60 s: 2 open, prefetch 2"]


def windowed(flow_mode: int) -> InspectedAmqp010:
    inspected = InspectedAmqp010()
    inspected.subscribe("q", "d")
    inspected.client(MessageSetFlowMode(destination="d", flow_mode=flow_mode))
    inspected.client(MessageFlow(destination="d", unit=0, value=2))
    for _ in range(2):
        inspected.deliver("d")
    inspected.ts_ns += 61_000_000_000
    return inspected


def test_a_window_of_0_10() -> None:
    inspected = windowed(1)
    assert inspected.look() == ["consumer d of queue q settled nothing for 60 s: 2 open, prefetch 2"]


def test_credit_of_0_10_is_given_by_the_client_each_time() -> None:
    assert windowed(0).look() == []


def test_a_window_of_0_10_that_is_settled() -> None:
    inspected = windowed(1)
    inspected.ts_ns -= 61_000_000_000
    inspected.accept((0, 1))
    inspected.ts_ns += 600_000_000_000
    assert inspected.look() == []
