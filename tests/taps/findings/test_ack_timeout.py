"""Channels that the broker closed since a delivery was not settled in time."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicAck, BasicDeliver, BasicGet, BasicGetOk, ChannelClose
from amqproxy.taps.findings.late_acks import LateAck
from tests.taps.findings.inspected import Inspected

TIMED_OUT = (
    "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 1800000 ms. This "
    "timeout value can be configured, see consumers doc guide to learn more"
)


def test_the_oldest_delivery_is_named_with_its_queue() -> None:
    inspected = Inspected(1)
    inspected.consuming()
    inspected.server(*[BasicDeliver("c", tag, False, "e", "k") for tag in (1, 2)])
    inspected.client(BasicAck(1))
    inspected.later(1830)
    inspected.server(ChannelClose(406, TIMED_OUT))
    (finding,) = inspected.findings
    assert (finding.kind, finding.channel) == ("ack-timeout", 1)
    assert finding.text == "delivery 2 to consumer c of queue q was open for 1830 s, beyond the timeout of 1800 s"
    assert finding.remedy.startswith(LateAck.remedy)


def test_a_message_that_basic_get_got() -> None:
    inspected = Inspected(1)
    inspected.client(BasicGet(queue="q"))
    inspected.server(BasicGetOk(1, False, "e", "k", 0))
    inspected.later(60)
    inspected.server(ChannelClose(406, "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out"))
    assert [each.text for each in inspected.findings] == ["delivery 1 was open for 60 s, beyond its timeout"]


def test_a_delivery_that_was_not_seen() -> None:
    inspected = Inspected(joined=True)
    inspected.server(ChannelClose(406, TIMED_OUT))
    assert [each.text for each in inspected.findings] == ["a delivery was open for longer than the timeout of 1800 s"]


@pytest.mark.parametrize(("code", "text"), [(406, "PRECONDITION_FAILED - unknown"), (404, TIMED_OUT)])
def test_another_error(code: int, text: str) -> None:
    inspected = Inspected(1)
    inspected.server(ChannelClose(code, text))
    assert inspected.kinds == ["channel-error"]


def test_a_client_may_say_so() -> None:
    inspected = Inspected(1)
    inspected.client(ChannelClose(406, TIMED_OUT))
    assert inspected.kinds == []
