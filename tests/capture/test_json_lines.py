"""Lines of JSON from the bytes of frames: those that records make, byte for byte."""

import math
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.frame import BODY, HEADER, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import BasicAck, ConnectionSecureOk, ConnectionStartOk, QueueDeclare
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.wire import Field, Table
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import Decoded, SkippedBytes
from amqproxy.taps.amqp091.chunk import Amqp091Chunk
from amqproxy.taps.note import Note
from tests.capture.any_frames import CAPTURES, WHERE, frames, times
from tests.capture.lines_of_records import by_records, written
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
    chunk = Amqp091DecodedFrames(ts_ns, stream, 'a"b\\-é:1', sender, Amqp091Chunk(data, 1 << 33, -1, False))
    as_list = msgspec.structs.replace(chunk, frames=list(chunk.frames))
    other = msgspec.structs.replace(chunk, sender="server", ts_ns=7, leg="client")
    noted = msgspec.structs.replace(other, leg="upstream", note=Note(("slow",), ("late",), "rewritten", "upstream"))
    passed: list[Decoded] = [chunk, as_list, other, noted]
    for has_both_legs in (False, True):
        assert written(passed, body, has_both_legs=has_both_legs) == by_records(
            passed, body, has_both_legs=has_both_legs
        )


def test_a_body_that_was_captured_in_part() -> None:
    frame = Frame(encode_frame(BODY, 1, b"ab" + bytes(8)), 3, 8)
    passed: list[Decoded] = [Amqp091DecodedFrames(*WHERE, [frame])]
    lines = written(passed, 5)
    assert lines == by_records(passed, 5)
    assert b'"size":10,"body":"ab","lost":8' in lines


def test_more_than_the_buffer_holds() -> None:
    headers = Table([Field(f"k{number}", "S", "\x01" * 5000) for number in range(30)])
    many = Table([Field(f"k{number}", "I", number) for number in range(500)])
    contents = [ContentHeader(9, Properties(headers=table)) for table in (headers, many, headers)]
    data = b"".join([encode_frame(HEADER, 1, each.encode()) for each in contents])
    passed: list[Decoded] = [Amqp091DecodedFrames(*WHERE, Amqp091Chunk(data * 5, 0))]
    assert written(passed, 0) == by_records(passed, 0)


def test_values_that_json_does_not_have() -> None:
    """Numbers that are not finite, negative decimals, and a name with several values."""
    odd = [
        *(Field(f"f{letter}", letter, value) for letter in "fd" for value in (math.nan, math.inf, -math.inf)),
        Field("D", "D", Decimal("-123.45")),
        *(Field("twin", "I", number) for number in range(3)),
    ]
    odd.append(Field("odd", "F", Table({"repeated": [1, 2]})))
    tables = [Table(odd[:7]), Table(odd), Table({"nested": Table(odd), "in": [math.nan, Table(odd)]})]
    data = b"".join([encode_frame(HEADER, 1, ContentHeader(9, Properties(headers=each)).encode()) for each in tables])
    passed: list[Decoded] = [Amqp091DecodedFrames(*WHERE, Amqp091Chunk(data, 0))]
    lines = written(passed, 0)
    assert lines == by_records(passed, 0)
    assert b'"ff":{"repeated":["NaN","Infinity","-Infinity"]}' in lines
    assert b'"D":"-123.45","twin":{"repeated":[0,1,2]},"odd":{"repeated":[{"repeated":[1,2]}]}' in lines
    assert b"null" not in lines


def test_secrets_are_masked() -> None:
    sent = [ConnectionStartOk(response=b"\0guest\0se\xffcret"), ConnectionSecureOk(b"secret")]
    data = b"".join([encode_method(0, each) for each in sent])
    passed: list[Decoded] = [Amqp091DecodedFrames(*WHERE, Amqp091Chunk(data, 0))]
    lines = written(passed, 0)
    assert lines == by_records(passed, 0)
    assert lines.count(b'"<masked>"') == 2


def test_what_is_no_frame() -> None:
    skipped = SkippedBytes(*WHERE, "0-9-1", "bytes are missing from the capture", 9, 100)
    frames = Amqp091DecodedFrames(*WHERE, Amqp091Chunk(encode_method(1, BasicAck(1)), 0))
    assert written([skipped, frames], 0) == by_records([skipped, frames], 0)


@pytest.mark.parametrize("depth", [127, 128, 129, 130, 20_000])
@pytest.mark.parametrize("letter", [b"F", b"A"], ids=["tables", "arrays"])
def test_tables_however_deep_they_nest(letter: bytes, depth: int) -> None:
    entries = b""
    for _ in range(depth):
        entries = (b"\x01k" if letter == b"F" else b"") + letter + len(entries).to_bytes(4) + entries
    table = Table.from_octets(entries if letter == b"F" else b"\x01k" + entries)
    header = encode_frame(HEADER, 1, ContentHeader(9, Properties(headers=table)).encode())
    data = encode_method(1, QueueDeclare(arguments=table)) + header
    passed: list[Decoded] = [Amqp091DecodedFrames(*WHERE, Amqp091Chunk(data, 0))]
    lines = written(passed, 0)
    assert lines == by_records(passed, 0)
    assert b"error" not in lines
