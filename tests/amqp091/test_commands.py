"""Commands: a method with its content."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091 import commands
from amqproxy.amqp091.commands import Command, CommandReader
from amqproxy.amqp091.errors import FrameError, ProtocolError, Scope
from amqproxy.amqp091.frame import BODY, HEADER, OVERHEAD, Frame, encode_frame, encode_method
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.methods import BasicAck, BasicPublish, ChannelCloseOk, Method
from amqproxy.amqp091.properties import NO_PROPERTIES, ContentHeader, Properties
from tests.amqp091 import strategies

PUBLISH = Frame(encode_method(1, BasicPublish(routing_key="q")))


def header(size: int, properties: Properties = NO_PROPERTIES) -> Frame:
    return Frame(encode_frame(HEADER, 1, ContentHeader(size, properties).encode()), 77)


def body(data: bytes) -> Frame:
    return Frame(encode_frame(BODY, 1, data), 99)


def read(data: bytes, reader: CommandReader | None = None) -> list[Command]:
    reader = reader or CommandReader()
    found = (reader.add(frame) for frame in FrameReader(frame_max=0).feed(data))
    return [command for command in found if command is not None]


def test_a_method_alone() -> None:
    command = CommandReader().add(Frame(encode_method(3, BasicAck(5))))
    assert command is not None
    assert (command.channel, command.method, command.header, command.body) == (3, BasicAck(5), None, b"")
    assert command.properties is NO_PROPERTIES
    assert len(command.frames) == 1


@pytest.mark.parametrize("pieces", [[], [b"hello"], [b"hel", b"lo"], [b"", b"hel", b"", b"lo"]])
def test_a_method_with_content(pieces: list[bytes]) -> None:
    reader = CommandReader()
    frames = [PUBLISH, header(sum(map(len, pieces)), Properties(priority=3)), *map(body, pieces)]
    *before, command = [reader.add(frame) for frame in frames]
    assert before == [None] * (len(frames) - 1)
    assert command is not None
    assert (command.method, command.body) == (PUBLISH.method, b"".join(pieces))
    assert command.properties == Properties(priority=3)
    assert command.frames == frames


def test_an_altered_command_is_sent_with_what_of_it_has_changed() -> None:
    frames = [PUBLISH, header(5, Properties(priority=3)), body(b"hello")]
    command = Command.received(frames[:1])
    renamed = command.altered(BasicPublish(routing_key="other"))
    assert (renamed.method.routing_key, renamed.is_complete, renamed.header) == ("other", False, None)
    command.frames.extend(frames[1:])  # what comes later is of both
    assert (renamed.is_complete, renamed.properties.priority, renamed.body) == (True, 3, b"hello")
    assert command.method.routing_key == "q"
    labelled = renamed.altered(properties=Properties(priority=4))
    assert (labelled.method.routing_key, labelled.properties, labelled.body_size) == (
        "other",
        Properties(priority=4),
        5,
    )
    assert [each.body for each in read(labelled.encode(0))] == [b"hello"]
    grown = labelled.altered(body=b"hello, world")
    assert (grown.frames, grown.body_size, grown.method.routing_key) == ([], 12, "other")
    [sent] = read(grown.encode(12))
    assert (sent.body, sent.properties.priority) == (b"hello, world", 4)
    assert Command(1, BasicAck(1)).altered(BasicAck(2)).encode(0) == encode_method(1, BasicAck(2))


def test_close_ok_takes_the_place_of_a_content_that_it_cuts_short() -> None:
    reader = CommandReader()
    for frame in (PUBLISH, header(5), body(b"he")):
        assert reader.add(frame) is None
    cut = reader.add(Frame(encode_method(1, ChannelCloseOk())))
    assert cut is not None
    assert cut.method == ChannelCloseOk()
    *_, command = [reader.add(frame) for frame in (PUBLISH, header(2), body(b"ok"))]
    assert command is not None
    assert command.body == b"ok"


@pytest.mark.parametrize("size", [11, 2**63, 2**64 - 1])
def test_a_body_past_the_limit_is_refused_by_its_header_and_the_rest_is_skipped(size: int) -> None:
    reader = CommandReader(max_body=10)
    reader.add(PUBLISH)
    with pytest.raises(ProtocolError) as caught:
        reader.add(header(size))
    error = caught.value
    assert (error.code, error.scope, error.class_id, error.method_id) == (406, Scope.CHANNEL, 60, 40)
    assert (error.channel, error.offset) == (1, 77)
    assert error.text == f"message size {size} is larger than the limit of 10"
    assert [reader.add(body(b"x")) for _ in range(5)] == [None] * 5
    *_, command = [reader.add(frame) for frame in (PUBLISH, header(10), body(b"0123456789"))]
    assert command is not None
    assert command.body == b"0123456789"


def test_a_content_in_endless_frames_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "MAX_FRAMES", 5)
    reader = CommandReader()
    for frame in (PUBLISH, header(1), body(b""), body(b"")):
        assert reader.add(frame) is None
    with pytest.raises(ProtocolError) as caught:
        reader.add(body(b""))
    assert (caught.value.code, caught.value.class_id, caught.value.method_id, caught.value.offset) == (506, 60, 40, 99)
    assert reader.add(body(b"")) is None


def test_a_malformed_header_is_an_error_once_its_content_is_complete() -> None:
    reader = CommandReader()
    reader.add(PUBLISH)
    with pytest.raises(FrameError):
        reader.add(Frame(encode_frame(HEADER, 1, ContentHeader(0).encode()[:-2] + b"\x80\x00")))


@pytest.mark.parametrize(
    ("size", "frame_max", "frames"), [(0, 4096, 2), (4088, 4096, 3), (4089, 4096, 4), (9999, 0, 3)]
)
def test_bodies_are_cut_to_fit(size: int, frame_max: int, frames: int) -> None:
    command = Command(7, BasicPublish(), body=bytes(size))
    data = command.encode(frame_max)
    found = FrameReader(frame_max=0).feed(data)
    assert len(found) == frames
    assert max(frame.size + OVERHEAD for frame in found) <= (frame_max or 20_000)
    assert [again.body for again in read(data)] == [bytes(size)]


def test_it_can_be_looked_at() -> None:
    assert repr(Command(7, BasicAck(1))) == "<Command BasicAck(delivery_tag=1, multiple=False) channel=7 body=0 bytes>"


@given(strategies.methods, strategies.properties, st.binary(max_size=300), st.sampled_from([0, 16, 50]))
def test_round_trip(method: Method, properties: Properties, data: bytes, frame_max: int) -> None:
    if not method.carries_content:
        properties, data = NO_PROPERTIES, b""
    wire = Command(5, method, properties, data).encode(frame_max)
    (command,) = read(wire)
    assert (command.channel, command.method, command.properties, command.body) == (5, method, properties, data)
    assert b"".join(frame.raw for frame in command.frames) == wire
