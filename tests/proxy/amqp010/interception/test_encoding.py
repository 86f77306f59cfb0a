"""Frames that are made, cut and damaged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp010.assembly import Assembly, AssemblyReader
from amqproxy.amqp010.commands import ExecutionSync, MessageAccept, MessageTransfer
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.properties import DeliveryProperties, Header
from amqproxy.peer import CLIENT, SERVER
from amqproxy.proxy.amqp010.interception.encoding import altered, encoded, fitting, frames_in, placeholder
from amqproxy.proxy.interception.actions import damaged

HEADER = Header((DeliveryProperties(routing_key="k"),))


@given(st.binary(max_size=3000), st.integers(100, 2000), st.integers(60, 1500))
def test_frames_that_are_cut_anew_are_the_same_command(body: bytes, size: int, frame_max: int) -> None:
    made = Assembly(1, MessageTransfer("x", 1, 0), HEADER, body)
    frames = fitting(encoded(made, size), frame_max)
    assert all(frame.length() <= frame_max for frame in frames)
    reader, assemblies = FrameReader(frame_max=0), AssemblyReader()
    found = [assemblies.add(frame) for frame in reader.feed(b"".join(frame.raw for frame in frames))]
    assert reader.error is None
    assert found[-1] is not None
    assert (found[-1].method, found[-1].header, found[-1].body) == (made.method, HEADER, body)


def test_frames_that_fit_stay() -> None:
    frames = encoded(Assembly(1, MessageTransfer("x", 1, 0), HEADER, b"hello"), 0)
    assert fitting(frames, 0) is frames
    assert fitting(frames, 4096) is frames


def test_a_changed_command_keeps_the_body_that_came() -> None:
    received = encoded(Assembly(1, MessageTransfer("x", 1, 0), HEADER, b"y" * 200), 100)
    original = Assembly.received(received)
    changed = original.altered(MessageTransfer("z", 1, 0))
    frames = altered(original, changed, received, 4096)
    assert frames[2:] == received[2:]
    assert Assembly.received(frames).method.destination == "z"


def test_a_header_for_a_message_without_one() -> None:
    received = encoded(Assembly(1, MessageTransfer("x", 1, 0)), 0)
    original = Assembly.received(received)
    frames = altered(original, original.altered(header=HEADER), received, 0)
    assert [frame.flags for frame in frames] == [11, 7]
    assert Assembly.received(frames).is_complete


def test_placeholders() -> None:
    assert placeholder(CLIENT, is_sync=True) == ExecutionSync(sync=True)
    nothing = placeholder(SERVER, is_sync=False)
    assert isinstance(nothing, MessageAccept)
    assert not nothing.transfers
    assert frames_in(Assembly(1, nothing).encode())[0].method == nothing


def test_damage() -> None:
    assert damaged(b"\0\0\0", ((1, 255), (4, 1))) == b"\0\xfe\0"
