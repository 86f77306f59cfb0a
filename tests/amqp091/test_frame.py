"""One frame: its bytes, and what they hold."""

from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given, settings

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import (
    BODY,
    HEADER,
    HEARTBEAT,
    HEARTBEAT_FRAME,
    METHOD,
    Frame,
    encode_method,
    every_frame,
)
from amqproxy.amqp091.frame_reader import ContentState, FrameReader
from amqproxy.amqp091.methods import (
    BY_INDEX,
    BY_NAME,
    BasicPublish,
)
from amqproxy.amqp091.properties import ContentHeader, Properties
from tests.amqp091 import strategies
from tests.amqp091.decoded_values import decode_fields, decode_flagged
from tests.amqp091.samples import (
    MESSAGE,
    PUBLISH,
    QOS,
    body,
    header,
    publishes,
)
from tests.capture import any_frames
from tests.example_count import example_count


@pytest.mark.parametrize(
    ("data", "kind", "channel", "size", "index", "text"),
    [
        (QOS, METHOD, 1, 11, BY_NAME["basic.qos"].index, "<Frame basic.qos channel=1 size=11 offset=7>"),
        (header(5, 258), HEADER, 258, 14, -1, "<Frame kind=2 channel=258 size=14 offset=7>"),
        (body(b"hello", 65535), BODY, 65535, 5, -1, "<Frame kind=3 channel=65535 size=5 offset=7>"),
        (HEARTBEAT_FRAME, HEARTBEAT, 0, 0, -1, "<Frame kind=8 channel=0 size=0 offset=7>"),
    ],
)
def test_a_frame_by_itself(data: bytes, kind: int, channel: int, size: int, index: int, text: str) -> None:
    (read,) = FrameReader(offset=7).feed(data)
    for frame in (read, Frame(data, 7)):
        assert (frame.kind, frame.channel, frame.size, frame.index) == (kind, channel, size, index)
        assert (frame.raw, frame.payload, frame.offset) == (data, data[7:-1], 7)
        assert repr(frame) == text


def test_what_a_frame_holds_is_decoded_when_asked_for_and_once() -> None:
    method, head, data, beat = FrameReader().feed(MESSAGE + HEARTBEAT_FRAME)
    assert method.method == method.value == BasicPublish(routing_key="q")
    assert method.method is method.value
    assert head.header == head.value == ContentHeader(5)
    assert head.header is head.value
    assert head.body_size == 5
    assert (data.value, beat.value) == (b"hello", b"")


def test_what_is_alike_is_decoded_once_and_what_is_not_never_confused() -> None:
    _ = Frame(PUBLISH).method  # what comes for the second time is kept
    first, second = Frame(PUBLISH), Frame(PUBLISH)
    assert first.method is second.method
    for number in range(3000):  # more than are remembered
        assert Frame(encode_method(1, BasicPublish(routing_key=f"q{number}"))).method.routing_key == f"q{number}"
        assert Frame(header(number)).header.body_size == number


def test_a_frame_without_a_method_has_none():
    with pytest.raises(TypeError, match="no method"):
        _ = Frame(HEARTBEAT_FRAME).method


# --- frames that were read before


def test_every_frame_of_bytes_that_were_read():
    data = b"".join(publishes("a", "b"))
    frames = every_frame(data, 100)
    assert b"".join(frame.raw for frame in frames) == data
    assert [frame.offset for frame in frames][:2] == [100, 100 + len(frames[0].raw)]


def decoded_by_class(frame: Frame) -> object:
    """Decode a frame by the values of its fields and a call of its class."""
    raw, end = frame.raw, len(frame.raw) - 1
    if frame.kind == METHOD:
        cls = BY_INDEX[frame.index]
        return cls(*decode_fields(cls.layout, raw, 11, end))
    if frame.kind == HEADER:
        properties = Properties(*decode_flagged(Properties.layout, raw, 19, end))
        ids = int.from_bytes(raw[7:9]), int.from_bytes(raw[9:11])
        return ContentHeader(int.from_bytes(raw[11:19]), properties, *ids)
    return raw[7:end]


@settings(max_examples=example_count(200), deadline=None)
@given(any_frames.frames)
def test_what_any_frame_holds_is_what_a_call_of_its_class_makes(data: bytes) -> None:
    copied, in_place = every_frame(data, 100), every_frame(data, 100, zero_copy=True)
    assert [frame.offset for frame in in_place] == [frame.offset for frame in copied]
    for alone, among in zip(copied, in_place, strict=True):
        expected = strategies.attempt(decoded_by_class, alone)
        for frame in (alone, among):
            found = strategies.attempt(lambda frame: frame.value, frame)
            if isinstance(expected, ProtocolError):
                assert isinstance(found, ProtocolError)
                assert (found.code, found.reply_text) == (expected.code, expected.reply_text)
                assert expected.offset is not None
                assert (found.offset, found.channel) == (alone.offset + expected.offset, alone.channel)
            else:
                assert (type(found), repr(found)) == (type(expected), repr(expected))
                assert found == expected or "nan" in repr(found)
        assert (among.payload, among.raw) == (alone.payload, alone.raw)


class Lanes(Mapping[int, ContentState]):
    """Lanes that may be looked up, and note which are."""

    def __init__(self, content_states: Mapping[int, ContentState]) -> None:
        self._lanes = content_states
        self.asked: list[int] = []

    def __getitem__(self, number: int) -> ContentState:
        self.asked.append(number)
        return self._lanes[number]

    def __len__(self) -> int:
        return len(self._lanes)

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("there may be very many")


def test_every_frame_has_its_ordinal_and_only_the_content_state_of_its_channel_is_looked_at():
    reader = FrameReader()
    for number in range(1, 1001):
        reader.open_content_state(number)
    data = b"".join(
        encode_method(number, BasicPublish(routing_key="a")) + header(1, number) + body(b"x", number)
        for number in (7, 9, 7)
    )
    fed = reader.feed(data)
    content_states = Lanes(reader.content_states)
    frames = every_frame(data, 0, content_states)
    assert [frame.ordinal for frame in frames] == [frame.ordinal for frame in fed]
    assert sorted(content_states.asked) == [7, 9]
