"""Frames to assemblies, and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp010 import assembly as module
from amqproxy.amqp010.assembly import MAX_SEGMENT, Assembly, AssemblyReader
from amqproxy.amqp010.commands import ExchangeDelete, MessageTransfer, QueueDeclare
from amqproxy.amqp010.controls import SessionAttach, SessionCompleted
from amqproxy.amqp010.errors import CommandInvalid, FramingError, ResourceLimitExceeded, Scope
from amqproxy.amqp010.frame import BODY, COMMAND, CONTROL, HEADER, Frame, encode_frame, encode_method, encode_segment
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties
from amqproxy.amqp010.wire import Map
from tests.amqp010 import samples, strategies


def frames_of(data: bytes) -> list[Frame]:
    reader = FrameReader(frame_max=0)
    frames = reader.feed(data)
    assert reader.error is None
    return frames


def read(data: bytes, reader: AssemblyReader | None = None) -> list[Assembly]:
    reader = reader or AssemblyReader()
    return [assembly for frame in frames_of(data) if (assembly := reader.add(frame)) is not None]


@given(strategies.assemblies(st.just(1)), st.integers(13, 200))
def test_an_assembly_comes_back_as_it_was(assembly: Assembly, frame_max: int) -> None:
    data = assembly.encode(frame_max)
    (again,) = read(data)
    assert again.channel == assembly.channel
    assert again.method == assembly.method
    assert again.header == assembly.header
    assert again.body == assembly.body
    assert again.has_body is assembly.has_body
    assert again.body_size == assembly.body_size
    assert again.index == assembly.index
    assert again.kind == assembly.kind
    assert again.is_complete
    assert b"".join(frame.raw for frame in again.frames) == data
    assert again.encode(frame_max) == data
    assert assembly.is_complete
    repr(again)


@given(st.lists(strategies.assemblies(st.just(1)), max_size=5), st.randoms(use_true_random=False))
def test_tracks_alternate_as_they_like(assemblies: list[Assembly], random: Any) -> None:
    tracks: tuple[list[bytes], list[bytes]] = ([], [])
    for assembly in assemblies:
        tracks[assembly.is_command].extend(samples.split(assembly.encode(100)))
    data = b""
    rest = [list(track) for track in tracks]
    while rest[0] or rest[1]:
        track = random.choice([track for track in rest if track])
        data += track.pop(0)
    found = read(data)
    for is_command in (False, True):
        assert [each.method for each in found if each.is_command is is_command] == [
            each.method for each in assemblies if each.is_command is is_command
        ]


def test_a_message() -> None:
    (assembly,) = read(samples.TRANSFER)
    assert assembly.method == MessageTransfer("", 0, 0)
    assert assembly.header == samples.HEADER
    assert assembly.properties == MessageProperties(content_length=5)
    assert assembly.delivery_properties.routing_key == "q"
    assert assembly.body == b"hello"
    assert assembly.is_command


def test_a_message_may_lack_anything() -> None:
    bare = Assembly(1, MessageTransfer("x"))
    (again,) = read(bare.encode())
    assert (again.header, again.has_body, again.body, again.body_size) == (None, False, b"", 0)
    assert again.properties == MessageProperties()
    assert again.delivery_properties == DeliveryProperties()
    (empty,) = read(Assembly(1, MessageTransfer("x"), None, b"").encode())
    assert empty.has_body
    assert empty.body == b""
    (headed,) = read(Assembly(1, MessageTransfer("x"), samples.HEADER).encode())
    assert headed.header == samples.HEADER
    assert not headed.has_body


def test_what_has_not_come_yet_is_not_there() -> None:
    frames = frames_of(samples.TRANSFER)
    listed = frames[:1]
    assembly = Assembly.received(listed)
    assert (assembly.header, assembly.body, assembly.is_complete) == (None, b"", False)
    listed.append(frames[1])
    assert assembly.header == samples.HEADER
    listed.append(frames[2])
    assert assembly.is_complete
    assert assembly.body == b"hello"


def test_it_is_altered() -> None:
    (assembly,) = read(samples.TRANSFER)
    other = assembly.altered(method=MessageTransfer("other"))
    assert (other.method.destination, other.header, other.body) == ("other", samples.HEADER, b"hello")
    assert other.frames == []
    assert assembly.altered(header=Header()).header == Header()
    assert assembly.altered(body=b"x").body == b"x"
    assert assembly.altered().encode() == samples.TRANSFER
    bare = Assembly(1, MessageTransfer("x"))
    assert not bare.altered(method=MessageTransfer("y")).has_body


def test_a_command_in_pieces_is_found_by_its_name() -> None:
    data = QueueDeclare("q" * 50).encode()
    frames = [encode_frame(0b1110, COMMAND, 1, data[:1]), encode_frame(0b1101, COMMAND, 1, data[1:])]
    (assembly,) = read(b"".join(frames))
    assert assembly.frames[0].index == -1
    assert assembly.index == QueueDeclare.index
    assert assembly.method == QueueDeclare("q" * 50)


def test_where_a_fault_lies_in_a_command_in_pieces() -> None:
    data = QueueDeclare("q" * 50).encode()[:-1]
    reader = AssemblyReader()
    first, last = frames_of(encode_frame(0b1110, COMMAND, 1, data[:4]) + encode_frame(0b1101, COMMAND, 1, data[4:]))
    assert reader.add(first) is None
    with pytest.raises(CommandInvalid) as caught:
        reader.add(last)
    assert caught.value.offset == 16 + 12 + 2, "where the text is said to be 50 bytes long"
    assert (caught.value.channel, caught.value.class_code, caught.value.method_code) == (1, 8, 1)
    assert not reader.is_mid_assembly


def test_where_a_fault_lies_in_a_header_in_pieces() -> None:
    header = samples.HEADER.encode()[:-1]
    data = samples.TRANSFER_FRAMES[0] + encode_segment(4, HEADER, 1, header, 20)
    with pytest.raises(CommandInvalid) as caught:
        read(data)
    assert caught.value.channel == 1
    assert len(samples.TRANSFER_FRAMES[0]) < (caught.value.offset or 0) < len(data)


def test_a_fault_costs_one_assembly() -> None:
    reader = AssemblyReader()
    bad, *good = frames_of(encode_frame(15, COMMAND, 1, b"\x09\x63") + samples.TRANSFER)
    with pytest.raises(CommandInvalid) as caught:
        reader.add(bad)
    assert caught.value.scope is Scope.SESSION
    assert [bool(reader.add(frame)) for frame in good] == [False, False, True]


def test_what_began_before_is_skipped() -> None:
    reader = AssemblyReader()
    midway = FrameReader(is_midstream=True)
    frames = midway.feed(samples.TRANSFER_FRAMES[2] + samples.TRANSFER)
    assert [assembly.body for frame in frames if (assembly := reader.add(frame))] == [b"hello"]
    assert reader.skipped == 1


def test_what_is_cut_off_is_dropped() -> None:
    reader = AssemblyReader()
    for frame in frames_of(samples.TRANSFER)[:2]:
        reader.add(frame)
    assert reader.is_mid_assembly
    (declare,) = frames_of(encode_method(1, ExchangeDelete("x")))
    found = reader.add(declare)
    assert found is not None
    assert found.method == ExchangeDelete("x")
    assert not reader.is_mid_assembly
    assert [bool(reader.add(frame)) for frame in frames_of(samples.TRANSFER * 2)[2:]] == [False, False, False, True]
    assert reader.skipped == 1


def test_a_body_has_a_limit() -> None:
    reader = AssemblyReader(max_body=10)
    body = encode_segment(4, BODY, 1, bytes(11), 17)
    frames = frames_of(b"".join(samples.TRANSFER_FRAMES[:2]) + body + samples.TRANSFER)
    for frame in frames[:4]:
        assert reader.add(frame) is None
    with pytest.raises(ResourceLimitExceeded, match="more than 10 bytes") as caught:
        reader.add(frames[4])
    assert (caught.value.class_code, caught.value.method_code) == (4, 1)
    assert [bool(reader.add(frame)) for frame in frames[5:]] == [False, False, True]


def test_other_segments_have_one_too() -> None:
    large = Map({"k": bytes(MAX_SEGMENT)})
    with pytest.raises(ResourceLimitExceeded):
        read(encode_method(1, QueueDeclare("q", arguments=large)))
    with pytest.raises(FramingError):
        read(encode_segment(12, CONTROL, 1, SessionAttach(b"x").encode() + bytes(MAX_SEGMENT)))
    (assembly,) = read(encode_method(1, QueueDeclare("q", arguments=Map({"k": bytes(MAX_SEGMENT // 2)}))))
    assert len(assembly.method.arguments["k"]) == MAX_SEGMENT // 2


def test_frames_without_bytes_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FRAMES", 8)
    frames = [encode_frame(6, BODY, 1, b""), *[encode_frame(4, BODY, 1, b"")] * 20]
    with pytest.raises(ResourceLimitExceeded, match="more than 8 frames"):
        read(b"".join((*samples.TRANSFER_FRAMES[:2], *frames)))


def test_a_control() -> None:
    (assembly,) = read(samples.COMPLETED)
    assert not assembly.is_command
    assert assembly.index == SessionCompleted.index
    assert repr(assembly) == f"<Assembly {assembly.method!r} channel=1 body=0 bytes>"


def test_what_has_come_of_a_command() -> None:
    reader = AssemblyReader()
    assert reader.partial_command is None
    header = Header((DeliveryProperties(routing_key="q"),))
    *most, last = frames_of(Assembly(1, MessageTransfer("x"), header, b"x" * 100).encode(64))
    for frame in most:
        assert reader.add(frame) is None
    partial = reader.partial_command
    assert partial is not None
    assert not partial.is_complete
    assert (partial.method.destination, partial.header, partial.body) == ("x", header, b"x" * 52)
    whole = reader.add(last)
    assert whole is not None
    assert whole.body == b"x" * 100
    assert reader.partial_command is None
