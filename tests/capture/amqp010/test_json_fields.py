"""Lines of JSON from the bytes of frames of AMQP 0-10: those that records make, byte for byte."""

from __future__ import annotations

import struct
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp010.commands import MessageAccept, MessageTransfer
from amqproxy.amqp010.controls import ConnectionStartOk, SessionAttach, SessionCompleted
from amqproxy.amqp010.frame import BODY, COMMAND, CONTROL, HEADER, Frame, encode_frame, encode_method
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties, ReplyTo
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import CODES, Array, Entry, Item, List, Map, width_of
from amqproxy.capture import frame_writer
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import Decoded
from amqproxy.capture.json_lines import JSONLines
from amqproxy.taps.note import Note
from tests.amqp010 import recorded, strategies
from tests.amqp091.strategies import mutated
from tests.capture.any_frames import WHERE, times
from tests.capture.lines_of_records import by_records, written
from tests.example_count import example_count

WHOLE = 0xF


@pytest.mark.parametrize("name", recorded.SESSIONS)
def test_every_recording_gives_the_lines_of_its_records(name: str) -> None:
    (path,) = recorded.FOLDER.glob(f"{name}.pcap*")
    passed = list(read_decoded(path))
    for body in (0, 7, 100_000):
        assert written(passed, body) == by_records(passed, body)


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    """A frame that a reader would pass; its payload may be anything."""
    kind = draw(st.sampled_from((CONTROL, COMMAND, COMMAND, HEADER, HEADER, BODY)))
    if kind == BODY:
        payload = draw(st.one_of(st.text(max_size=40).map(str.encode), st.binary(max_size=40)))
    elif kind == HEADER:
        payload = draw(strategies.headers).encode()
        payload = draw(st.one_of(st.just(payload), mutated(st.just(payload))))
    else:
        method = draw(strategies.methods.filter(lambda each: each.segment == kind))
        payload = method.encode()
        payload = draw(st.one_of(st.just(payload), mutated(st.just(payload[2:])).map(lambda rest: payload[:2] + rest)))
    flags = draw(st.sampled_from((WHOLE, WHOLE, WHOLE, 0xA, 1)))
    return Frame(encode_frame(flags, kind, draw(st.integers(0, 0xFFFF)), payload), 1 << 33)


@settings(max_examples=example_count(200), deadline=None)
@given(
    st.lists(st.tuples(frames(), st.one_of(st.none(), st.integers(0, 0xFFFF_FFFF))), min_size=1, max_size=6),
    times,
    st.integers(0, 60),
)
def test_any_frames_give_the_lines_of_their_records(
    listed: list[tuple[Frame, int | None]], ts_ns: int, body: int
) -> None:
    frames, numbers = [frame for frame, _ in listed], [number for _, number in listed]
    first = Amqp010DecodedFrames(ts_ns, 7, 'a"b\\-é:1', "client", frames, command_ids=numbers)
    other = msgspec.structs.replace(first, sender="server", ts_ns=7, leg="client")
    noted = msgspec.structs.replace(other, leg="upstream", note=Note(("slow",), ("late",), "rewritten", "upstream"))
    passed: list[Decoded] = [first, other, noted]
    for has_both_legs in (False, True):
        lines = written(passed, body, has_both_legs=has_both_legs)
        assert lines == by_records(passed, body, has_both_legs=has_both_legs)


PLAIN = (
    MessageTransfer("orders", 0, 1, sync=True),
    MessageAccept(SequenceSet([(0, 3), (0xFFFF_FFFF, 0)])),
    SessionAttach(b"a session"),
    SessionCompleted(None),
    ConnectionStartOk(Map({"a": 1, "b": [1, -2, 1 << 40, "x", None, True, {}]}), "PLAIN", b"\0guest\0secret", "en_US"),
)
PROPERTIES = Header(
    (
        DeliveryProperties(redelivered=True, priority=4, timestamp=-5, exchange="", routing_key='a "key"\n'),
        MessageProperties(
            1 << 60,
            UUID(int=0xFEDC),
            b"id",
            ReplyTo(None, "back"),
            application_headers=Map(
                [
                    Entry("empty", "map", Map()),
                    Entry("many", "array", Array("int16", [1, -1])),
                    Entry("list", "list", List([Item("uuid", UUID(int=1)), Item("int8", -1), Item("double", 0.5)])),
                    Entry("é", "str16", "ü"),
                ]
            ),
        ),
    )
)


def test_what_is_usual_needs_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join([encode_method(1, each) for each in PLAIN])
    data += encode_frame(0xB, COMMAND, 1, MessageTransfer().encode())
    data += encode_frame(3, HEADER, 1, PROPERTIES.encode()) + encode_frame(7, BODY, 1, b"hello")
    found = FrameReader(frame_max=0).feed(data)
    passed: list[Decoded] = [Amqp010DecodedFrames(*WHERE, found, command_ids=list(range(len(found))))]
    lines = JSONLines(3)
    lines.add(passed[0])  # the beginning of the lines of a direction is taken from a record
    lines.take()
    with monkeypatch.context() as patch:
        patch.setattr(frame_writer, "records_of", None)
        lines.add(passed[0])
    made = lines.take()
    assert made == by_records(passed, 3)
    assert b"secret" not in made
    assert b'"message_id":"00000000-0000-0000-0000-00000000fedc"' in made


@pytest.mark.parametrize("depth", [3, 127, 128, 140])
def test_depth(depth: int) -> None:
    nested = Map()
    for _ in range(depth):
        nested = Map([Entry("in", "map", nested)])
    payload = Header((MessageProperties(application_headers=nested),)).encode()
    passed: list[Decoded] = [
        Amqp010DecodedFrames(*WHERE, [Frame(encode_frame(3, HEADER, 1, payload))], command_ids=[None])
    ]
    assert written(passed, 0) == by_records(passed, 0)


@pytest.mark.parametrize("type_", ["bin8", "char", "bin16", "bin32", "bin64", "bin128", "float", "int8"])
def test_there_is_room_for_arrays_whose_json_is_long(type_: str) -> None:
    width = width_of(CODES[type_]) or 0
    value = struct.pack(">f", -1.2345678e-5) if type_ == "float" else b"\x80" if type_ == "int8" else bytes(width)
    array = Array.from_bytes(bytes((CODES[type_],)) + (60_000 // width).to_bytes(4) + value * (60_000 // width))
    payload = Header((MessageProperties(application_headers=Map([Entry("a", "array", array)])),)).encode()
    start_ok = ConnectionStartOk(Map([Entry("a", "array", array)]), "PLAIN", b"", "")
    found = [Frame(encode_frame(3, HEADER, 1, payload)), Frame(encode_method(0, start_ok))]
    passed: list[Decoded] = [Amqp010DecodedFrames(*WHERE, found, command_ids=[None, None])]
    assert written(passed, 0) == by_records(passed, 0)


def test_a_body_that_was_captured_in_part() -> None:
    frame = Frame(encode_frame(7, BODY, 1, b"ab" + bytes(8)), 3, 8)
    passed: list[Decoded] = [Amqp010DecodedFrames(*WHERE, [frame], command_ids=[5])]
    lines = written(passed, 5)
    assert lines == by_records(passed, 5)
    assert b'"size":10,"body":"ab","lost":8' in lines


@pytest.mark.parametrize("outer", [Map({"k": Map({"repeated": [1, 2]})}), Map({"repeated": [1, 2], "k": "x"})])
def test_maps_that_look_like_the_values_of_a_repeated_key(outer: Map) -> None:
    payload = Header((MessageProperties(application_headers=outer),)).encode()
    passed: list[Decoded] = [
        Amqp010DecodedFrames(*WHERE, [Frame(encode_frame(3, HEADER, 1, payload))], command_ids=[None])
    ]
    assert written(passed, 0) == by_records(passed, 0)
