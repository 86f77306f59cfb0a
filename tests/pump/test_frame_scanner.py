"""What scanners of all protocols have in common: their counts, and whether they write frames."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.tally import KINDS, Tally
from amqproxy.pump.frame_scanner import FrameScanner
from amqproxy.pump.pumps import are_available
from tests.pump.rig import PUBLISH, Wire, pump
from tests.transcripts.words import octets

pytestmark = pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")


def test_counts_are_added_to_the_tallies_once() -> None:
    tallies = Tally(), Tally()
    wire = Wire(pump(tallies=tallies))
    wire.hand_over()
    wire.client.send(octets(PUBLISH))
    wire.settle()
    for _ in range(2):
        wire.pump.collect()
        assert [sum(tally.frames) for tally in tallies] == [3, 0]
    wire.close()


def test_without_tallies_nothing_is_collected() -> None:
    FrameScanner(KINDS, None).collect()
    tallies = Tally(), Tally()
    FrameScanner(KINDS, tallies).collect()
    assert not any(sum(tally.frames) for tally in tallies)
