"""What a pump writes down of what passes, and that nothing of it is lost."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest

from amqproxy.pump.pumps import are_available
from amqproxy.taps.metering.amqp091.message_meter import MessageMeter
from amqproxy.taps.metering.amqp091.message_run import RUN
from amqproxy.taps.metering.message_counts import Count, MessageCounts
from tests.pump.rig import DELIVER, PUBLISH, Running, Wire, pump, run_of_publishes, until
from tests.transcripts.words import octets

pytestmark = pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")


def run_of_deliveries(tag: int, size: int) -> bytes:
    """What a journal has of one with that delivery tag on channel 1, as transcripts have it."""
    return struct.pack(">BHIQQQQ4pB", RUN, 1, 36, 1, size, 0, tag, b"tag", 0xCE)


def test_what_has_passed_is_noted() -> None:
    noted: list[tuple[bool, bytes, bool]] = []
    wire = Wire(pump(), note=lambda is_server, data, now, is_cut: noted.append((is_server, bytes(data), is_cut)))
    wire.hand_over()
    wire.client.send(octets(PUBLISH))
    wire.settle()
    wire.server.send(octets(DELIVER))
    wire.settle()
    assert noted == [(False, run_of_publishes(1, 5), True), (True, run_of_deliveries(1, 5), True)]
    wire.close()


def test_a_full_journal_is_waited_for_and_nothing_is_lost() -> None:
    counts = MessageCounts()
    meter = MessageMeter(counts)
    pairs = 60_000
    with Running(journal=1 << 20, stuck_after=1000.0) as running:
        wire = Wire(
            running, note=lambda is_server, data, now, is_cut: meter.feed(is_server, data, now, is_cut), buffer=1 << 20
        )
        wire.hand_over()
        # Sizes that change are a run for each message.
        data = (octets(PUBLISH) + octets("1: basic.publish, 1: header 6, 1: body 6")) * pairs
        left = memoryview(data)
        while left or len(wire.seen[1]) < len(data):
            with suppress(BlockingIOError):
                left = left[wire.client.send(left) :] if left else left
            wire.look()
            running.receive_returned()
        assert data == bytes(wire.seen[1])
        until(lambda: meter.frames == 6 * pairs, running)
        assert not meter.is_lost
        assert counts.values[Count.PUBLISHED] == 2 * pairs
        assert counts.published_bytes.total == 11 * pairs
        wire.close()


def test_all_is_noted_though_one_fails() -> None:
    noted: list[bytes] = []

    def fail(is_server: bool, data: memoryview, now: float, is_cut: bool) -> None:
        raise MemoryError("injected")

    pump_ = pump()
    failing = Wire(pump_, note=fail)
    other = Wire(pump_, note=lambda is_server, data, now, is_cut: noted.append(bytes(data)))
    for wire in (failing, other):
        wire.hand_over()
        wire.client.send(octets(PUBLISH))
    while not (failing.seen[1] and other.seen[1]):
        pump_.turn()
        failing.look()
        other.look()
    with pytest.raises(MemoryError, match="injected"):
        pump_.read_journal()
    assert noted == [run_of_publishes(1, 5)]
    pump_.read_journal()
    for wire in (failing, other):
        wire.close()
