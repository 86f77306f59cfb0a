"""The AMQP 0-10 frames that a pump passes, counts and notes, and those before which it gives a connection back."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import ExecutionException, ExecutionSync, MessageTransfer
from amqproxy.amqp010.controls import (
    ConnectionClose,
    ConnectionHeartbeat,
    SessionAttach,
    SessionCommandPoint,
    SessionCompleted,
    SessionDetach,
    SessionDetached,
    SessionGap,
)
from amqproxy.amqp010.frame import encode_frame, encode_method
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.methods import BY_NAME
from amqproxy.amqp010.tally import METHOD_COUNT, Tally
from amqproxy.proxy.amqp010.session_meter import Amqp010SessionMeter
from amqproxy.pump.pumps import are_available
from amqproxy.pump.return_reasons import FORCED, METHOD_COMES, WRONG
from amqproxy.taps.metering.amqp010.message_run import RUN as AMQP010_RUN
from amqproxy.taps.metrics import Metrics
from tests.example_count import example_count
from tests.proxy.amqp010_script import ids, method, transfer
from tests.pump.amqp010.random_commands import frames_of, random_amqp010_commands
from tests.pump.amqp010.rig import Amqp010Wire, amqp010_pump

pytestmark = pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")

PUBLISH = transfer(b"hello")
COMPLETED = method(SessionCompleted(ids((0, 0))))


@pytest.fixture
def wire() -> Iterator[Amqp010Wire]:
    made = Amqp010Wire(amqp010_pump())
    yield made
    made.close()


def test_frames_pass_in_both_directions_and_are_counted() -> None:
    tallies = Tally(), Tally()
    wire = Amqp010Wire(amqp010_pump(tallies))
    wire.hand_over()
    data = PUBLISH + method(ConnectionHeartbeat(), 0) + transfer(b"x" * 9000, channel=2)
    back = COMPLETED + transfer(b"hello", accept_mode=1)
    wire.client.send(data)
    wire.server.send(back)
    wire.settle()
    assert bytes(wire.seen[1]) == data
    assert bytes(wire.seen[0]) == back
    latencies, _ = wire.pump.collect()
    assert sum(latencies) == 2
    moved, beat, completed = (
        BY_NAME[name].index for name in ("message.transfer", "connection.heartbeat", "session.completed")
    )
    seen = [{slot: count for slot, count in enumerate(tally.frames) if count} for tally in tallies]
    header, body = METHOD_COUNT + moved, 2 * METHOD_COUNT + moved
    assert seen[0] == {moved: 2, header: 2, body: 4, beat: 1}
    assert seen[1] == {moved: 1, header: 1, body: 1, completed: 1}
    assert [sum(tally.byte_counts) for tally in tallies] == [len(data), len(back)]
    latencies, total = wire.pump.collect()
    assert (sum(latencies), total) == (0, 0), "what was collected is not collected again"
    assert sum(tallies[0].frames) == 9
    wire.close()


KEPT = {
    "connection.close": method(ConnectionClose(200, ""), 0),
    "connection.close on a channel": method(ConnectionClose(200, ""), 1),
    "session.attach": method(SessionAttach(b"t"), 3),
    "session.detach": method(SessionDetach(b"s")),
    "session.detached": method(SessionDetached(b"s", 0)),
    "session.command-point": method(SessionCommandPoint(5, 0)),
    "session.gap": method(SessionGap(ids((0, 1)))),
    "execution.exception": method(ExecutionException(404, 1)),
    "a control that is not known": encode_frame(15, 0, 1, b"\x01\x7f"),
    "a command that is not known": encode_frame(15, 1, 1, b"\x7f\x7f\x01\x00"),
    "a control of no bytes": encode_frame(15, 0, 1, b""),
    "a control in more than one frame": encode_frame(14, 0, 1, COMPLETED[12:14]),
    "a transfer on a channel without a session": transfer(b"x", channel=3),
    "a heartbeat on a channel without a session": method(ConnectionHeartbeat(), 7),
}


@pytest.mark.parametrize("kept", KEPT.values(), ids=KEPT.keys())
def test_what_is_not_for_a_pump_gives_the_connection_back(wire: Amqp010Wire, kept: bytes) -> None:
    lease = wire.hand_over()
    wire.client.send(PUBLISH + kept + PUBLISH)
    wire.settle()
    assert bytes(wire.seen[1]) == PUBLISH
    assert wire.returned == 1
    assert lease.reason == METHOD_COMES
    assert lease.rest(0) == kept + PUBLISH


@pytest.mark.parametrize("size", [14, 15])
def test_such_a_control_gives_back_before_it_is_whole(wire: Amqp010Wire, size: int) -> None:
    lease = wire.hand_over()
    wire.client.send(KEPT["session.detach"][:size])
    wire.settle()
    assert lease.reason == METHOD_COMES


HEADERLESS = encode_method(1, ExecutionSync())
BEGINS = frames_of(PUBLISH)
WRONG_FRAMES = {
    "high flags": b"\x1f" + HEADERLESS[1:],
    "an unknown type": encode_frame(15, 4, 1, b"")[:12],
    "a size below its header": b"\x0f\x01\x00\x0b" + bytes(8),
    "a frame above the limit": b"\x0f\x01\x10\x01" + bytes(8),
    "a reserved byte": HEADERLESS[:4] + b"\1" + HEADERLESS[5:],
    "another reserved byte": HEADERLESS[:11] + b"\1" + HEADERLESS[12:],
    "an unknown track": HEADERLESS[:5] + b"\2" + HEADERLESS[6:],
    "a command on the track of controls": HEADERLESS[:5] + b"\0" + HEADERLESS[6:],
    "a control on the track of commands": COMPLETED[:5] + b"\1" + COMPLETED[6:],
    "a body that nothing came before": BEGINS[2],
    "a header that nothing came before": BEGINS[1],
    "a command before the one before it has ended": BEGINS[0] + HEADERLESS,
    "two headers": BEGINS[0] + BEGINS[1] * 2,
    "a sync that has content": b"\x0b" + HEADERLESS[1:],
    "a body that goes on as a header": encode_frame(11, 1, 1, BEGINS[0][12:]) + encode_frame(6, 3, 1, b"x") + BEGINS[1],
}


@pytest.mark.parametrize("wrong", WRONG_FRAMES.values(), ids=WRONG_FRAMES.keys())
def test_what_is_wrong_is_for_the_reader_to_refuse(wire: Amqp010Wire, wrong: bytes) -> None:
    expected = FrameReader()
    expected.feed(PUBLISH + wrong)
    assert expected.error is not None
    lease = wire.hand_over()
    wire.client.send(PUBLISH + wrong)
    wire.settle()
    assert wire.returned == 1
    assert lease.reason == WRONG
    assert bytes(wire.seen[1]) + lease.rest(0) == PUBLISH + wrong
    lease.show()
    found = wire.amqp010_readers[0]
    found.feed(lease.rest(0))
    assert repr(found.error) == repr(expected.error)
    assert found.offset == expected.offset
    assert found.refused == expected.refused


def test_tracks_and_channels_interleave(wire: Amqp010Wire) -> None:
    one, two = (frames_of(transfer(b"x" * 5000, channel=channel)) for channel in (1, 2))
    data = b"".join(b"".join(pair) + COMPLETED for pair in zip(one, two, strict=True))
    wire.hand_over()
    wire.client.send(data)
    wire.settle()
    assert bytes(wire.seen[1]) == data


@pytest.mark.parametrize("size", [0, 1, 65_523])
def test_frames_of_all_sizes(size: int) -> None:
    wire = Amqp010Wire(amqp010_pump(), frame_max=0)
    wire.hand_over()
    data = Assembly(1, MessageTransfer("", 0, 0), None, bytes(size)).encode(65_535)
    left = data
    while left:
        left = left[wire.client.send(left) :]
        wire.settle()
    assert bytes(wire.seen[1]) == data
    wire.close()


def test_so_many_frames_and_no_more() -> None:
    wire = Amqp010Wire(amqp010_pump(most_frames=2))
    lease = wire.hand_over()
    wire.client.send(PUBLISH)
    wire.settle()
    assert lease.reason == FORCED
    assert bytes(wire.seen[1]) == b"".join(BEGINS[:2])
    wire.close()


# --- what is noted


def test_messages_are_counted_and_bodies_left_out() -> None:
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
def test_a_meter_counts_by_the_journal_as_by_the_bytes(seed: int) -> None:
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
