"""Bytes to frames: however they are cut, and in which order they may come."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import MessageTransfer, QueueDelete
from amqproxy.amqp010.controls import ConnectionTuneOk, SessionFlush
from amqproxy.amqp010.errors import FramingError, ProtocolError
from amqproxy.amqp010.frame import BODY, COMMAND, CONTROL, HEADER, Frame, encode_frame, encode_method, encode_segment
from amqproxy.amqp010.frame_reader import EVERY_METHOD, FrameReader
from amqproxy.amqp010.tally import METHOD_COUNT
from tests.amqp010 import samples, strategies

HEADER_OF_FRAME = samples.HEARTBEAT[:12]


def fed(*frames: bytes, is_midstream: bool = False) -> FrameReader:
    """A reader that was fed these, all of which it was asked for."""
    reader = FrameReader(frame_max=0, is_midstream=is_midstream)
    reader.feed(b"".join(frames))
    return reader


@given(st.lists(strategies.assemblies(), max_size=4), st.lists(st.integers(1, 80), max_size=30), st.booleans())
def test_how_bytes_are_cut_does_not_matter(assemblies: list[Assembly], cuts: list[int], zero_copy: bool) -> None:
    data = b"".join([assembly.encode(100) for assembly in assemblies])
    places = sorted({min(sum(cuts[:number]), len(data)) for number in range(len(cuts) + 1)} | {0, len(data)})
    reader = FrameReader()
    reader.zero_copy = zero_copy
    frames: list[Frame] = []
    taken = b""
    for start, end in pairwise(places):
        frames += reader.feed(data[start:end])
        taken += bytes(reader.taken)
        assert reader.taken_from + len(reader.taken) == reader.offset
        assert taken + reader.held == data[:end]
    assert reader.error is None
    assert [frame.raw for frame in frames] == samples.split(data)
    assert reader.frames == len(frames)
    assert b"".join(frame.raw for frame in frames) == data
    assert all(frame.is_in_order for frame in frames)
    place = 0
    for frame in frames:
        assert frame.offset == place
        place += frame.length()
        again = Frame(frame.raw, frame.offset)
        assert (again.kind, again.flags, again.track, again.channel, again.index) == (
            frame.kind, frame.flags, frame.track, frame.channel, frame.index
        )  # fmt: skip


@given(st.lists(strategies.assemblies(), min_size=1, max_size=4), st.integers(1, 5))
def test_a_quantum_pauses(assemblies: list[Assembly], quantum: int) -> None:
    data = b"".join([assembly.encode() for assembly in assemblies])
    reader = FrameReader(frame_max=0)
    reader.quantum = quantum
    frames = reader.feed(data)
    taken = bytes(reader.taken)
    while reader.is_paused:
        assert len(frames) % quantum == 0
        frames += reader.resume()
        taken += bytes(reader.taken)
    assert reader.resume() == []
    assert taken == data
    assert [frame.raw for frame in frames] == samples.split(data)


def test_bytes_that_come_while_it_is_paused() -> None:
    reader = FrameReader()
    reader.quantum = 1
    assert len(reader.feed(samples.TRANSFER)) == 1
    assert len(reader.feed(samples.COMPLETED)) == 1
    assert reader.is_paused
    reader.quantum = 0
    assert [frame.name for frame in reader.resume()] == ["body", "session.completed"]


def test_what_is_between_two_frames() -> None:
    reader = FrameReader()
    frames = reader.feed(samples.TRANSFER + samples.COMPLETED)
    assert reader.taken_frames == 4
    assert bytes(reader.between(0, frames[3].offset)) == samples.TRANSFER
    assert bytes(reader.between(frames[3].offset, reader.offset)) == samples.COMPLETED
    assert reader.between(0, reader.offset) is reader.taken


def test_bytes_read_elsewhere_count() -> None:
    reader = FrameReader()
    reader.skip(8)
    assert reader.feed(samples.HEARTBEAT)[0].offset == 8


def test_only_what_is_wanted_is_handed_over() -> None:
    reader = FrameReader()
    wants = bytearray(samples.NOTHING)
    wants[MessageTransfer.index] = 1
    reader.want(bytes(wants), content=False)
    unknown = encode_frame(15, COMMAND, 1, b"\x09\x63")
    data = samples.TRANSFER + samples.COMPLETED + unknown
    assert [frame.name for frame in reader.feed(data)] == ["message.transfer", "command"]
    assert reader.frames == 5
    reader.want(samples.NOTHING, content=True)
    assert [frame.name for frame in reader.feed(data)] == ["header", "body", "command"]
    reader.want(EVERY_METHOD, content=False)
    assert [frame.name for frame in reader.feed(samples.TRANSFER)] == ["message.transfer"]
    assert len(EVERY_METHOD) == METHOD_COUNT


# Limits.


def test_the_limits_of_a_tune_ok_hold_behind_it() -> None:
    reader = FrameReader()
    assert reader.frame_max == 4096
    reader.feed(encode_method(0, ConnectionTuneOk(10, 5000, 0)))
    assert (reader.frame_max, reader.channel_max) == (5000, 10)
    reader.feed(encode_frame(15, COMMAND, 10, bytes(4988)))
    assert reader.error is None
    reader.feed(encode_frame(15, COMMAND, 1, bytes(4989)))
    assert isinstance(reader.error, FramingError)


@pytest.mark.parametrize(
    "tune_ok", [ConnectionTuneOk(heartbeat=1), ConnectionTuneOk(0, 0), ConnectionTuneOk(65_535, 65_535)]
)
def test_limits_that_are_not_there(tune_ok: ConnectionTuneOk) -> None:
    reader = FrameReader()
    reader.feed(encode_method(0, tune_ok) + encode_frame(15, COMMAND, 65_535, bytes(65_523)))
    assert reader.error is None
    assert reader.frames == 2


def test_a_tune_ok_that_is_malformed_is_up_to_its_reader() -> None:
    reader = FrameReader()
    (frame,) = reader.feed(encode_frame(15, CONTROL, 0, ConnectionTuneOk(1, 4096).encode()[:-1]))
    assert reader.frame_max == 4096
    with pytest.raises(FramingError):
        _ = frame.method


@pytest.mark.parametrize(
    ("header", "message", "place"),
    [
        ("4f00001000000000" + "00000000", "high four bits", 0),
        ("1f00001000000000" + "00000000", "high four bits", 0),
        ("0f04001000000000" + "00000000", "a frame of type 4", 1),
        ("0f00000b00000000" + "00000000", "a frame of 11 bytes", 2),
        ("0f00000000000000" + "00000000", "a frame of 0 bytes", 2),
        ("0f00100100000000" + "00000000", "4097 bytes, where 4096 are allowed", 2),
        ("0f00001001000000" + "00000000", "reserved", 0),
        ("0f00001000000000" + "01000000", "reserved", 0),
        ("0f00001000000000" + "00000001", "reserved", 0),
        ("0f00001000020000" + "00000000", "on track 2", 5),
        ("0f00001000100000" + "00000000", "on track 16", 5),
        ("0f00001000000006" + "00000000", "channel 6 of 5", 6),
    ],
)
def test_a_header_that_is_malformed(header: str, message: str, place: int) -> None:
    data = samples.HEARTBEAT + bytes.fromhex(header) + b"rest"
    whole = FrameReader()
    whole.set_channel_max(5)
    assert len(whole.feed(data)) == 1
    assert isinstance(whole.error, FramingError)
    assert message in whole.error.text
    assert whole.error.offset == len(samples.HEARTBEAT) + place
    assert whole.refused == data[len(samples.HEARTBEAT) :]
    assert bytes(whole.taken) == samples.HEARTBEAT
    with pytest.raises(FramingError):
        whole.feed(b"")
    single = FrameReader()
    single.set_channel_max(5)
    for number in range(len(data)):
        single.feed(data[number : number + 1])
        if single.error is not None:
            break
    assert (str(single.error), single.refused[:4]) == (str(whole.error), whole.refused[:4])


def test_what_is_wrong_with_a_header_is_known_from_its_first_bytes() -> None:
    reader = FrameReader()
    reader.feed(b"HTTP")
    assert reader.error is not None


# The order on each track.

METHOD, CONTENT, BODY_FRAME = samples.TRANSFER_FRAMES
PIECES = samples.split(encode_segment(0, HEADER, 1, bytes(100), 62))


def test_tracks_and_channels_alternate() -> None:
    other = [frame[:6] + b"\x00\x07" + frame[8:] for frame in samples.TRANSFER_FRAMES]
    reader = fed(METHOD, samples.COMPLETED, other[0], CONTENT, samples.HEARTBEAT, other[1], BODY_FRAME, other[2])
    assert reader.error is None
    assert reader.frames == 8
    assert not reader.is_mid_assembly


@pytest.mark.parametrize(
    "frames",
    [
        (encode_frame(15, COMMAND, 1, b""),),
        (encode_frame(0b1011, COMMAND, 1, METHOD[12:]), encode_frame(0b0111, HEADER, 1, b"")),
        (encode_frame(0b1011, COMMAND, 1, METHOD[12:]), encode_frame(0b0111, BODY, 1, b"")),
        (METHOD, *PIECES, BODY_FRAME),
        (
            encode_frame(0b1010, COMMAND, 1, b""),
            encode_frame(0b1000, COMMAND, 1, b""),
            encode_frame(0b1001, COMMAND, 1, b""),
            BODY_FRAME,
        ),
        (encode_frame(0b1110, CONTROL, 1, b""), METHOD, encode_frame(0b1101, CONTROL, 1, b""), CONTENT, BODY_FRAME),
        (encode_frame(0b1011, COMMAND, 1, b"\x09\x63"), CONTENT, BODY_FRAME),
    ],
)
def test_orders_that_are_allowed(frames: tuple[bytes, ...]) -> None:
    reader = fed(*frames)
    assert reader.error is None
    assert reader.frames == len(frames)
    assert not reader.is_mid_assembly


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ((METHOD, METHOD), "begins before the one before it has ended"),
        ((METHOD, CONTENT, METHOD), "begins before"),
        ((CONTENT,), "not of an assembly"),
        ((BODY_FRAME,), "not of an assembly"),
        ((METHOD, BODY_FRAME, CONTENT), "not of an assembly"),
        ((METHOD, CONTENT, CONTENT), "may not follow"),
        ((METHOD, encode_frame(0b0011, COMMAND, 1, b"")), "may not follow"),
        ((METHOD, encode_frame(0b0001, HEADER, 1, b"")), "may not follow"),
        ((METHOD, PIECES[0], BODY_FRAME), "which goes on"),
        ((METHOD, PIECES[0], PIECES[0]), "which goes on"),
        ((METHOD, PIECES[0], encode_frame(0b0101, HEADER, 1, b"")), "which goes on"),
        ((METHOD, encode_frame(0b0011, BODY, 1, b"")), "not the last segment"),
        ((encode_frame(15, COMMAND, 1, b"")[:5] + b"\x00" + encode_frame(15, COMMAND, 1, b"")[6:],), "on the track"),
        ((encode_frame(15, CONTROL, 1, b"")[:5] + b"\x01" + encode_frame(15, CONTROL, 1, b"")[6:],), "on the track"),
        ((encode_frame(15, HEADER, 1, b""),), "an assembly that begins with a header"),
        ((encode_frame(0b1011, COMMAND, 1, QueueDelete("q").encode()),), "carries no content"),
        ((encode_frame(0b1011, CONTROL, 1, SessionFlush().encode()),), "carries no content"),
    ],
)
def test_orders_that_are_not(frames: tuple[bytes, ...], message: str) -> None:
    reader = fed(*frames)
    assert reader.error is not None
    assert message in reader.error.text
    assert reader.error.channel == 1
    assert reader.error.offset == sum(map(len, frames[:-1]))
    assert reader.refused == frames[-1]


def test_a_track_that_is_joined_in_the_middle() -> None:
    assert fed(CONTENT, is_midstream=True).is_mid_assembly
    assert fed(CONTENT, BODY_FRAME, METHOD, is_midstream=True).error is None
    assert fed(PIECES[1], BODY_FRAME, is_midstream=True).error is None
    assert fed(BODY_FRAME, BODY_FRAME, is_midstream=True).error is not None, "joined once only"
    assert fed(CONTENT, CONTENT, is_midstream=True).error is not None
    assert fed(METHOD, samples.COMPLETED, CONTENT, BODY_FRAME, is_midstream=True).error is None
    assert (
        fed(encode_frame(0, COMMAND, 1, b""), encode_frame(1, COMMAND, 1, b""), BODY_FRAME, is_midstream=True).error
        is None
    )


@given(st.binary(max_size=200), st.booleans())
def test_rubbish_ends_in_an_error_that_names_its_place(data: bytes, is_midstream: bool) -> None:
    reader = FrameReader(is_midstream=is_midstream)
    frames = reader.feed(data)
    for frame in frames:
        try:
            _ = frame.value
        except ProtocolError as error:
            assert 0 <= (error.offset or 0) <= len(data)  # noqa: PT017 - many of them have none
    if reader.error is None:
        assert bytes(reader.taken) + reader.held == data
        assert reader.held_size == len(reader.held)
    else:
        assert bytes(reader.taken) + reader.refused == data
        assert reader.error.offset is not None
        assert len(reader.taken) <= reader.error.offset <= len(data)
