"""What a pump writes down of what passes, and that nothing of it is lost."""

from __future__ import annotations

import struct
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp010.controls import SessionCommandPoint
from amqproxy.amqp010.frame import encode_method
from amqproxy.proxy.amqp010.session_meter import Amqp010SessionMeter
from amqproxy.pump.pumps import are_available
from amqproxy.taps.metering.amqp010.message_run import RUN as AMQP010_RUN
from amqproxy.taps.metering.amqp091.message_meter import MessageMeter
from amqproxy.taps.metering.amqp091.message_run import RUN
from amqproxy.taps.metering.message_counts import Count, MessageCounts
from amqproxy.taps.metrics import Metrics
from tests.example_count import example_count
from tests.proxy.amqp010_script import transfer
from tests.pump.amqp010_rig import Amqp010Wire, amqp010_pump
from tests.pump.random_amqp010_commands import frames_of, random_amqp010_commands
from tests.pump.random_commands import random_commands
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


def test_messages_are_counted_and_left_out() -> None:
    noted: list[bytes] = []
    wire = Wire(pump(), note=lambda is_server, data, now, is_cut: noted.append(bytes(data)))
    wire.hand_over()
    wire.client.send(octets(PUBLISH) * 3 + octets("1: basic.publish, 1: header 9000, 1: body 9000"))
    wire.settle()
    assert b"".join(noted) == run_of_publishes(3, 5) + run_of_publishes(1, 9000)
    wire.close()


def test_bodies_of_messages_in_parts_are_left_out() -> None:
    noted: list[bytes] = []
    wire = Wire(pump(), note=lambda is_server, data, now, is_cut: noted.append(bytes(data)))
    wire.hand_over()
    wire.client.send(octets("1: basic.publish, 1: header 9000, 1: body 8000, 1: body 1000"))
    wire.settle()
    cut = octets("1: basic.publish, 1: header 9000") + octets("1: body 8000")[:7] + octets("1: body 1000")[:7]
    assert b"".join(noted) == cut
    wire.close()


@settings(max_examples=example_count(60))
@given(seed=st.integers(0, 2**32))
def test_a_meter_counts_by_the_journal_as_by_the_bytes(seed: int) -> None:
    dice = Random(seed)
    opening = octets("1: channel.open, 1: confirm.select"), octets("1: channel.open-ok, 1: confirm.select-ok")
    data = random_commands(dice, is_server=False), random_commands(dice, is_server=True)
    direct, journalled = MessageCounts(), MessageCounts()
    meters = MessageMeter(direct), MessageMeter(journalled)
    for meter in meters:
        meter.feed(False, opening[0], 0.0)
        meter.feed(True, opening[1], 0.0)
    meters[0].feed(False, data[0], 1.0)
    meters[0].feed(True, data[1], 1.0)
    wire = Wire(pump(), note=lambda is_server, data, now, is_cut: meters[1].feed(is_server, data, 1.0, is_cut))
    wire.hand_over()
    for place, peer in enumerate((wire.client, wire.server)):
        left = data[place]
        while left:
            left = left[peer.send(left[: dice.randint(1, 9000)]) :]
            wire.settle()
    assert not meters[1].is_lost
    assert list(journalled.values) == list(direct.values)
    assert journalled.published_bytes.counts == direct.published_bytes.counts
    assert journalled.delivered_bytes.counts == direct.delivered_bytes.counts
    assert meters[1].frames == meters[0].frames
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


def test_messages_of_amqp_0_10_are_counted_and_bodies_left_out() -> None:
    noted: list[bytes] = []
    wire = Amqp010Wire(amqp010_pump(), note=lambda is_server, data, now, is_cut: noted.append(bytes(data)))
    wire.hand_over()
    whole, parts = transfer(b"x" * 99), transfer(b"x" * 9000)
    for data in (whole * 3, parts):
        wire.client.send(data)
        wire.settle()
    run = struct.pack(">BBHHHIIIB", AMQP010_RUN, 0, 21, 0, 1, 0, 3, 99, 0)
    cut = b"".join(frame[:12] if frame[1] == 3 else frame for frame in frames_of(parts))
    assert noted == [run, cut]
    wire.close()


@settings(max_examples=example_count(60), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_meter_of_amqp_0_10_counts_by_the_journal_as_by_the_bytes(seed: int) -> None:
    dice = Random(seed)
    data = random_amqp010_commands(dice), random_amqp010_commands(dice)
    direct, journalled = Metrics(), Metrics()
    meters = Amqp010SessionMeter(direct, 1, ""), Amqp010SessionMeter(journalled, 2, "")
    points = b"".join(encode_method(channel, SessionCommandPoint(0xFFFF_FFF0, 0)) for channel in (1, 2))
    for place in (0, 1):
        for meter in meters:
            meter.feed(bool(place), points, 1.0)
        meters[0].feed(bool(place), data[place], 1.0)
    note = meters[1].feed
    wire = Amqp010Wire(amqp010_pump(), note=lambda is_server, data, now, is_cut: note(is_server, data, 1.0, is_cut))
    wire.hand_over()
    for place, sock in enumerate((wire.client, wire.server)):
        left = data[place]
        while left:
            left = left[sock.send(left[: dice.randint(1, 9000)]) :]
            wire.settle()
    assert not meters[1].is_lost
    assert direct.messages is not None
    assert journalled.messages is not None
    assert list(journalled.messages.values) == list(direct.messages.values)
    assert journalled.messages.published_bytes.counts == direct.messages.published_bytes.counts
    assert journalled.messages.delivered_bytes.counts == direct.messages.delivered_bytes.counts
    wire.close()
