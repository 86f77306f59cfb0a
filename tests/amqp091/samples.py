"""Frames that the tests of reading them feed, and readers to feed them to."""

from amqproxy.amqp091.frame import (
    BODY,
    FRAME_MIN_SIZE,
    HEADER,
    Frame,
    encode_frame,
    encode_method,
)
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.methods import (
    BasicPublish,
    BasicQos,
)
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.tally import METHOD_COUNT

PUBLISH = encode_method(1, BasicPublish(routing_key="q"))


QOS = encode_method(1, BasicQos())


NOTHING = bytes(METHOD_COUNT)


def header(size: int, channel: int = 1) -> bytes:
    return encode_frame(HEADER, channel, ContentHeader(size).encode())


def raw_header(data: str, zeros: int) -> bytes:
    return encode_frame(HEADER, 1, bytes.fromhex(data) + bytes(zeros))


def body(data: bytes, channel: int = 1) -> bytes:
    return encode_frame(BODY, channel, data)


MESSAGE = PUBLISH + header(5) + body(b"hello")


def reader_with_lanes(*channels: int, frame_max: int = FRAME_MIN_SIZE) -> FrameReader:
    reader = FrameReader(frame_max=frame_max)
    for channel in channels:
        reader.open_content_state(channel)
    return reader


def raws(frames: list[Frame]) -> list[bytes]:
    return [frame.raw for frame in frames]


def publishes(*keys: str) -> list[bytes]:
    return [
        encode_method(1, BasicPublish(routing_key=key))
        + encode_frame(HEADER, 1, ContentHeader(3).encode())
        + encode_frame(BODY, 1, b"abc")
        for key in keys
    ]
