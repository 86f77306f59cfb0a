"""Lines for a person from the bytes of frames: those that records make, byte for byte."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT_FRAME, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicPublish,
    ConnectionSecureOk,
    ConnectionStartOk,
    QueueDeclare,
)
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.wire import Field, Table
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import Decoded, SkippedBytes
from amqproxy.taps.amqp091.chunk import Amqp091Chunk
from amqproxy.taps.note import Note
from tests.capture.any_frames import CAPTURES, WHERE, frames, times
from tests.capture.text_of_records import by_records, written
from tests.example_count import example_count


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
@pytest.mark.parametrize("body", [0, 7, 100_000])
def test_every_capture_gives_the_lines_of_its_records(path: Path, body: int) -> None:
    passed = list(read_decoded(path))
    assert written(passed, body) == by_records(passed, body)


@settings(max_examples=example_count(200), deadline=None)
@given(frames, times, st.integers(0, 2**40), st.sampled_from(["client", "server"]), st.integers(0, 60))
def test_any_frames_give_the_lines_of_their_records(
    data: bytes, ts_ns: int, stream: int, sender: str, body: int
) -> None:
    chunk = Amqp091DecodedFrames(ts_ns, stream, "a:1-b:2", sender, Amqp091Chunk(data, 1 << 33, -1, False))
    as_list = msgspec.structs.replace(chunk, frames=list(chunk.frames))
    other = msgspec.structs.replace(chunk, sender="server", ts_ns=7, leg="client")
    noted = msgspec.structs.replace(other, leg="upstream", note=Note(("slow",), ("late",), "rewritten", "upstream"))
    passed: list[Decoded] = [chunk, as_list, other, noted]
    for has_both_legs in (False, True):
        assert written(passed, body, has_both_legs=has_both_legs) == by_records(
            passed, body, has_both_legs=has_both_legs
        )


@settings(max_examples=example_count(200), deadline=None)
@given(st.integers(0, 65_535), st.text(max_size=40), st.booleans())
@example(1, 'a "quoted" \\ text', True)
@example(65_535, "one\\word", False)
@example(1000, "é", True)
@example(10_000, "\x1b[31m", False)
@example(9999, " ", True)
def test_channels_and_texts(channel: int, text: str, bit: bool) -> None:
    text = text.encode()[:250].decode(errors="ignore")
    methods = [
        BasicPublish(exchange=text, routing_key=text, mandatory=bit),
        BasicConsume(queue=text, no_ack=bit, exclusive=not bit),
        QueueDeclare(queue="q", durable=bit),
        BasicAck(0, bit),
    ]
    data = b"".join([encode_method(channel, each) for each in methods])
    data += encode_frame(HEADER, channel, ContentHeader(0, Properties(content_type=text, priority=0)).encode())
    passed: list[Decoded] = [Amqp091DecodedFrames(*WHERE, Amqp091Chunk(data + HEARTBEAT_FRAME, 0))]
    assert written(passed, 0) == by_records(passed, 0)


def test_a_body_that_was_captured_in_part() -> None:
    frame = Frame(encode_frame(BODY, 1, b"ab" + bytes(8)), 3, 8)
    passed: list[Decoded] = [Amqp091DecodedFrames(*WHERE, [frame])]
    lines = written(passed, 5)
    assert lines == by_records(passed, 5)
    assert lines.endswith("body  10 bytes, 8 not captured  ab\n")


def test_more_than_the_buffer_holds() -> None:
    headers = Table([Field(f"k{number}", "S", "\x01" * 5000) for number in range(30)])
    contents = [
        ContentHeader(9, each)
        for each in (Properties(headers=headers), Properties(content_type="x" * 255), Properties(message_id="a " * 127))
    ]
    data = b"".join([encode_frame(HEADER, 1, each.encode()) for each in contents])
    passed: list[Decoded] = [Amqp091DecodedFrames(*WHERE, Amqp091Chunk(data * 300, 0))]
    assert written(passed, 0) == by_records(passed, 0)


def test_secrets_are_masked() -> None:
    sent = [ConnectionStartOk(response=b"\0guest\0se\xffcret"), ConnectionSecureOk(b"secret")]
    data = b"".join([encode_method(0, each) for each in sent])
    passed: list[Decoded] = [Amqp091DecodedFrames(*WHERE, Amqp091Chunk(data, 0))]
    lines = written(passed, 0)
    assert lines == by_records(passed, 0)
    assert "cret" not in lines
    assert lines.count("response=<masked>") == 2


def test_bytes_that_could_not_be_read() -> None:
    passed: list[Decoded] = [SkippedBytes(*WHERE, "0-9-1", "not AMQP", 7, 3, 501)]
    assert written(passed, 0) == by_records(passed, 0)
