"""What goes to a pump with a connection of AMQP 0-10, and what comes back."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.tally import Tally
from amqproxy.pump.pumped_connection import PumpedConnection
from amqproxy.pump.pumps import are_available
from amqproxy.pump.return_reasons import RECALLED
from tests.example_count import example_count
from tests.proxy.amqp010_script import transfer
from tests.pump.amqp010.random_commands import frames_of, random_amqp010_commands
from tests.pump.amqp010.rig import Amqp010Wire, amqp010_pump, numbering

pytestmark = pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")

PUBLISH = transfer(b"hello")
COMMAND, HEADER, BODY = frames_of(PUBLISH)


def test_only_whole_frames_pass_and_the_rest_comes_back() -> None:
    wire = Amqp010Wire(amqp010_pump())
    lease = wire.hand_over()
    wire.client.send(PUBLISH[:-3])
    wire.settle()
    assert bytes(wire.seen[1]) == COMMAND + HEADER
    wire.pump.recall(lease)
    assert wire.returned == 1
    assert lease.reason == RECALLED
    assert lease.rest(0) == BODY[:-3]
    assert lease.show() == (len(PUBLISH) - 3, 0)
    reader = wire.amqp010_readers[0]
    assert (reader.offset, reader.frames) == (len(COMMAND + HEADER), 2)
    assert reader.is_mid_assembly
    (body,) = reader.feed(BODY)
    assert wire.numberings[0].number(body) == 0xFFFF_FFF0
    assert not reader.is_mid_assembly
    wire.close()


def test_what_a_reader_holds_of_a_frame_and_of_a_command_goes_along() -> None:
    wire = Amqp010Wire(amqp010_pump())
    (frame,) = wire.amqp010_readers[0].feed(COMMAND + HEADER[:5])
    wire.numberings[0].number(frame)
    lease = wire.hand_over()
    assert wire.amqp010_readers[0].held == b""
    wire.client.send(HEADER[5:] + BODY + PUBLISH)
    wire.settle()
    assert bytes(wire.seen[1]) == HEADER + BODY + PUBLISH
    wire.pump.recall(lease)
    lease.show()
    assert wire.numberings[0].number(Frame(COMMAND)) == 0xFFFF_FFF2
    wire.close()


def test_what_is_known_while_it_is_pumped() -> None:
    wire = Amqp010Wire(amqp010_pump())
    lease = wire.hand_over()
    for times in (1, 2):
        wire.client.send(PUBLISH)
        wire.settle()
        assert lease.show() == (len(PUBLISH), 0)
        assert (wire.amqp010_readers[0].offset, wire.amqp010_readers[0].frames) == (times * len(PUBLISH), 3 * times)
    wire.pump.recall(lease)
    lease.show()
    lease.show()
    assert wire.numberings[0].number(Frame(COMMAND)) == 0xFFFF_FFF2
    wire.close()


@settings(max_examples=example_count(100), deadline=None)
@given(seed=st.integers(0, 2**32), most_frames=st.integers(1, 9), cut=st.integers(1, 3000))
def test_bytes_out_are_bytes_in_however_often_the_owner_changes(seed: int, most_frames: int, cut: int) -> None:
    """Owner by owner, each byte passes once, in its order, and both know the same of frames as one reader would."""
    dice = Random(seed)
    tallies = Tally(), Tally()
    wire = Amqp010Wire(amqp010_pump(tallies, most_frames=most_frames))
    wire.amqp010_readers = FrameReader(tallies[0]), FrameReader(tallies[1])
    data = random_amqp010_commands(dice), random_amqp010_commands(dice)
    left = list(data)
    peers = wire.client, wire.server
    while any(left) or wire.lease is not None:
        place = dice.randint(0, 1)
        if left[place]:
            size = dice.randint(1, max(cut, len(data[place]) // 50))
            with suppress(BlockingIOError):
                left[place] = left[place][peers[place].send(left[place][:size]) :]
        lease = wire.lease or wire.hand_over()
        wire.settle()
        if dice.random() < 0.2 or not any(left):
            wire.pump.recall(lease)
        if not lease.is_pumped:
            _relay_here(wire, lease)
            wire.lease = None
    wire.settle()
    wire.pump.collect()
    for place in (0, 1):
        assert bytes(wire.seen[1 - place]) == data[place]
        tally = Tally()
        expected, ids = FrameReader(tally), numbering(1, 2)
        for frame in expected.feed(data[place]):
            ids.number(frame)
        found = wire.amqp010_readers[place]
        assert (found.offset, found.frames) == (expected.offset, expected.frames)
        assert not found.is_mid_assembly
        assert list(tallies[place].frames) == list(tally.frames)
        assert list(tallies[place].byte_counts) == list(tally.byte_counts)
        following = [Frame(frames_of(transfer(b"", channel=channel))[0]) for channel in (1, 2)]
        assert [*map(wire.numberings[place].number, following)] == [*map(ids.number, following)]
    wire.close()


def _relay_here(wire: Amqp010Wire, lease: PumpedConnection) -> None:
    """What a session does with what it gets back: all of it, up to the last whole frame."""
    lease.show()
    for place in (0, 1):
        target = wire.sockets[1 - place]
        unsent = lease.unsent(place)
        if unsent:
            assert target.send(unsent) == len(unsent)
        rest = lease.rest(place)
        if rest:
            reader = wire.amqp010_readers[place]
            for frame in reader.feed(rest):
                wire.numberings[place].number(frame)
            taken = bytes(reader.taken)
            if taken:
                assert target.send(taken) == len(taken)
    wire.look()
