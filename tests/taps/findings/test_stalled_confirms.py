"""Publishes that the broker leaves unconfirmed, all of them, for long."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicAck, BasicPublish, ChannelClose, ConnectionBlocked, ConnectionUnblocked
from amqproxy.taps.trace.handshake_facts import HandshakeFacts
from tests.taps.findings.amqp010.inspected import InspectedAmqp010
from tests.taps.findings.inspected import Inspected


def publishing(*, confirms: bool = True) -> Inspected:
    inspected = Inspected(1)
    if confirms:
        inspected.confirming()
    inspected.client(*[BasicPublish(routing_key="q")] * 3)
    return inspected


def capable(facts: HandshakeFacts, is_capable: bool) -> None:
    facts.client_properties = {"capabilities": {"connection.blocked": is_capable}}


@pytest.mark.parametrize(
    ("is_capable", "lacks"), [(False, ", and the client lacks the capability connection.blocked"), (True, "")]
)
def test_a_broker_that_confirms_nothing(is_capable: bool, lacks: str) -> None:
    inspected = publishing()
    capable(inspected.trace.facts, is_capable)
    inspected.server(BasicAck(1))
    inspected.later(31)
    assert inspected.look() == [f"the broker confirmed nothing for 30 s, with 2 publishes open{lacks}"]
    assert inspected.kinds == ["stalled-confirms"]
    assert inspected.look() == []


def test_a_broker_that_confirms_some() -> None:
    inspected = publishing()
    for tag in (1, 2, 3):
        inspected.later(29)
        inspected.server(BasicAck(tag))
    inspected.later(100)
    assert inspected.look() == []


def test_publishes_without_confirms() -> None:
    inspected = publishing(confirms=False)
    inspected.later(100)
    assert inspected.look() == []


def stalled(inspected: Inspected | InspectedAmqp010, seconds: int) -> list[str]:
    """What is found a second later, when the broker has taken nothing for some seconds."""
    inspected.ts_ns += 1_000_000_000
    inspected.trace.activity.stalled_ns = seconds * 1_000_000_000
    return inspected.look()


@pytest.mark.parametrize(
    ("is_capable", "lacks"), [(False, ", and the client lacks the capability connection.blocked"), (True, "")]
)
def test_a_broker_that_reads_nothing_where_confirms_are_off(is_capable: bool, lacks: str) -> None:
    inspected = publishing(confirms=False)
    capable(inspected.trace.facts, is_capable)
    inspected.later(29)
    assert stalled(inspected, 29) == []
    text = "the broker has read nothing for 30 s, while publishes wait to be sent"
    assert stalled(inspected, 30) == [f"{text}{lacks}"]
    assert stalled(inspected, 31) == []


def test_a_broker_that_reads_nothing_over_0_10() -> None:
    """There each transfer is answered by its completion: the first one that is not shows it as well."""
    inspected = InspectedAmqp010()
    inspected.publish(accept_mode=1)
    inspected.ts_ns += 30_000_000_000
    (text,) = stalled(inspected, 30)
    assert text.startswith("the broker confirmed nothing for 30 s, with 1 publishes open")


def test_a_broker_that_has_said_that_it_reads_nothing() -> None:
    inspected = publishing(confirms=False)
    inspected.server(ConnectionBlocked("low on memory"), channel=0)
    inspected.later(31)
    assert stalled(inspected, 31) == []


def test_a_broker_that_says_that_it_is_blocked() -> None:
    inspected = publishing()
    inspected.server(ConnectionBlocked("low on memory"), channel=0)
    inspected.later(100)
    assert inspected.look() == []
    inspected.server(ConnectionUnblocked(), channel=0)
    inspected.later(31)
    assert len(inspected.look()) == 1


def test_a_channel_that_has_ended() -> None:
    inspected = publishing()
    inspected.client(ChannelClose(200, "bye"))
    inspected.later(100)
    assert inspected.look() == []


def test_transfers_of_0_10() -> None:
    inspected = InspectedAmqp010()
    inspected.publish(accept_mode=0)
    inspected.ts_ns += 31_000_000_000
    assert len(inspected.look()) == 1


def stalled_once(inspected: Inspected, before: int, seconds: int) -> list[str]:
    """What is found at the end, when the broker took nothing for some seconds, so many seconds before."""
    activity = inspected.trace.activity
    activity.stalled_ns = seconds * 1_000_000_000
    activity.stalled_until_ns = inspected.ts_ns - before * 1_000_000_000
    inspected.end()
    return [each.text for each in inspected.findings if each.kind == "stalled-confirms"]


def test_a_broker_that_read_nothing_for_a_while() -> None:
    inspected = publishing(confirms=False)
    inspected.later(100)
    (text,) = stalled_once(inspected, before=20, seconds=40)
    assert text.startswith("the broker read nothing for 40 s, while publishes waited to be sent")


@pytest.mark.parametrize(
    ("blocked", "is_found"), [((50, 30), False), ((70, 65), True), ((19, 10), True), ((50, 10), False)]
)
def test_a_broker_that_said_so_then_is_not_accused(blocked: tuple[int, int], is_found: bool) -> None:
    """It read nothing from 60 to 20 s before the end, and said from and to so many seconds before it was blocked."""
    inspected = publishing(confirms=False)
    inspected.later(100 - blocked[0])
    inspected.server(ConnectionBlocked("low on memory"), channel=0)
    inspected.later(blocked[0] - blocked[1])
    inspected.server(ConnectionUnblocked(), channel=0)
    inspected.later(blocked[1])
    assert bool(stalled_once(inspected, before=20, seconds=40)) == is_found


def test_publishes_after_the_broker_read_again_did_not_wait() -> None:
    inspected = Inspected(1)
    inspected.later(100)
    inspected.client(BasicPublish(routing_key="q"))
    assert stalled_once(inspected, before=20, seconds=40) == []
