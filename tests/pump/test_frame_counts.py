"""Frames and bytes by their kind, which one thread counts, and another one collects."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.tally import KINDS, Tally
from amqproxy.pump.frame_counts import FrameCounts
from amqproxy.pump.pumps import are_available
from tests.proxy.amqp010_script import transfer
from tests.pump.amqp010.rig import Amqp010Wire, amqp010_pump

pytestmark = pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")


def test_nothing_is_counted_at_first() -> None:
    tallies = Tally(), Tally()
    FrameCounts(KINDS).collect(tallies)
    assert not any(sum(tally.frames) + sum(tally.byte_counts) for tally in tallies)


def test_what_is_counted_is_added_to_what_others_have_counted() -> None:
    tallies = Tally(), Tally()
    tallies[0].frames[7] = 5
    wire = Amqp010Wire(amqp010_pump(tallies))
    wire.hand_over()
    for times in (1, 2):
        wire.client.send(transfer(b"hello"))
        wire.server.send(transfer(b"x"))
        wire.settle()
        wire.pump.collect()
        assert [sum(tally.frames) for tally in tallies] == [5 + 3 * times, 3 * times]
        assert sum(tallies[0].byte_counts) == times * len(transfer(b"hello"))
    wire.close()
