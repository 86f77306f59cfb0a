"""Connections that make no progress, of which there may be many: whichever goes on or ends, the others are known."""

from __future__ import annotations

from itertools import permutations

import pytest

from amqproxy.pump.pumps import are_available
from amqproxy.pump.return_reasons import TRICKLING
from tests.pump.rig import Wire, pump, settle
from tests.transcripts.words import octets

pytestmark = pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")

LARGE = octets("1: basic.publish, 1: header 9000, 1: body 9000")
MOST = 5000
"""Bytes of it that come at first: more of a frame than a pump waits for without a bound."""


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_those_that_go_on_are_known_no_more(order: tuple[int, ...]) -> None:
    pump_ = pump(stuck_after=1000.0)
    wires = [Wire(pump_) for _ in range(3)]
    for wire in wires:
        wire.hand_over()
        wire.client.send(LARGE[:MOST])
    settle(pump_)
    for number in order:
        assert pump_.has_deadline
        wires[number].client.send(LARGE[MOST:])
        wires[number].settle()
        assert bytes(wires[number].seen[1]) == LARGE
    assert not pump_.has_deadline
    for wire in wires:
        assert wire.returned == 0
        wire.close()


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_those_that_are_recalled_are_known_no_more(order: tuple[int, ...]) -> None:
    pump_ = pump(stuck_after=1000.0)
    wires = [Wire(pump_) for _ in range(3)]
    for wire in wires:
        lease = wire.hand_over()
        wire.client.send(LARGE[:MOST])
        wire.server.send(octets("1: basic.deliver, 1: header 9000, 1: body 9000")[:MOST])
        assert lease.is_pumped
    settle(pump_)
    for number in order:
        assert pump_.has_deadline
        lease = wires[number].lease
        assert lease is not None
        pump_.recall(lease)
    assert not pump_.has_deadline
    for wire in wires:
        wire.close()


def test_all_of_them_are_given_back_at_once() -> None:
    pump_ = pump(stuck_after=0.0)
    wires = [Wire(pump_) for _ in range(5)]
    for wire in wires:
        wire.hand_over()
        wire.client.send(LARGE[:MOST])
    while not all(wire.returned for wire in wires):
        settle(pump_)
    for wire in wires:
        assert wire.lease is not None
        assert wire.lease.reason == TRICKLING
        assert wire.lease.rest(0) == LARGE[len(LARGE) - 9008 : MOST]
        wire.close()
    assert not pump_.has_deadline
