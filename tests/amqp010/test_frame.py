"""One frame."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp010.commands import MessageTransfer, QueueDeclare
from amqproxy.amqp010.controls import ConnectionTuneOk, SessionCompleted
from amqproxy.amqp010.errors import CommandInvalid, FramingError, IllegalArgument, ProtocolError, Scope
from amqproxy.amqp010.frame import (
    BODY,
    COMMAND,
    CONTROL,
    HEADER,
    Frame,
    chosen,
    decode_header,
    decode_method,
    encode_frame,
    encode_method,
    encode_segment,
)
from amqproxy.amqp010.properties import DeliveryProperties
from amqproxy.amqp010.sequence import SequenceSet
from tests.amqp010 import samples


def test_bytes_of_a_frame() -> None:
    assert encode_frame(0b1011, COMMAND, 258, b"abc").hex() == "0b01" + "000f" + "0001" + "0102" + "00000000" + "616263"
    assert encode_frame(15, CONTROL, 0, b"").hex() == "0f00000c" + "0000000000000000"


def test_what_a_frame_is() -> None:
    frame = Frame(samples.TRANSFER_FRAMES[0], 100)
    assert (frame.kind, frame.track, frame.channel, frame.flags) == (COMMAND, 1, 1, 0b1011)
    assert frame.index == MessageTransfer.index
    assert frame.name == "message.transfer"
    assert not frame.is_last_segment
    assert frame.is_first_frame
    assert frame.is_last_frame
    assert frame.begins_assembly
    assert not frame.ends_assembly
    assert frame.is_whole_segment
    assert frame.raw == samples.TRANSFER_FRAMES[0]
    assert frame.payload == frame.raw[12:] == frame.known_payload
    assert frame.size == len(frame.payload) == frame.length() - 12
    assert not frame.is_in_order
    assert repr(frame) == f"<Frame message.transfer B-be channel=1 size={frame.size} offset=100>"


def test_what_frames_hold() -> None:
    method, header, body = map(Frame, samples.TRANSFER_FRAMES)
    assert method.method == method.value == MessageTransfer("", 0, 0)
    assert header.header == header.value == samples.HEADER
    assert body.value == b"hello"
    assert body.ends_assembly
    assert (header.name, body.name) == ("header", "body")
    completed = Frame(samples.COMPLETED)
    assert completed.method == SessionCompleted(SequenceSet([(0, 3)]))
    assert completed.begins_assembly
    assert completed.ends_assembly


def test_what_is_decoded_is_decoded_once() -> None:
    one, two = Frame(samples.TRANSFER_FRAMES[0]), Frame(samples.TRANSFER_FRAMES[0])
    assert one.method is one.method
    assert two.method is one.method, "commands that are alike share what is decoded"
    header = Frame(samples.TRANSFER_FRAMES[1])
    assert header.header is header.header


def test_a_piece_of_a_segment_is_not_decoded() -> None:
    piece = Frame(encode_frame(0b1110, COMMAND, 1, MessageTransfer("q").encode()))
    assert piece.value == piece.payload
    assert piece.index == MessageTransfer.index
    with pytest.raises(TypeError):
        _ = piece.method
    with pytest.raises(TypeError):
        _ = Frame(encode_frame(0b0010, HEADER, 1, b"")).header
    with pytest.raises(TypeError):
        _ = Frame(samples.TRANSFER_FRAMES[1]).method
    with pytest.raises(TypeError):
        _ = Frame(samples.TRANSFER_FRAMES[0]).header


@pytest.mark.parametrize(
    ("kind", "payload", "error", "message", "place"),
    [
        (COMMAND, "", CommandInvalid, "a command of 0 bytes", 12),
        (COMMAND, "04", CommandInvalid, "a command of 1 bytes", 12),
        (COMMAND, "0463" + "0100" + "0000", CommandInvalid, "there is no command 0x0463", 12),
        (COMMAND, "010a" + "0100" + "0000", CommandInvalid, "there is no command 0x010a", 12),
        (COMMAND, "0301", CommandInvalid, "session header", 14),
        (COMMAND, "0301" + "0000" + "0000", CommandInvalid, "session header", 14),
        (COMMAND, "0301" + "0102" + "0000", CommandInvalid, "session header", 14),
        (COMMAND, "0301" + "0100" + "00", CommandInvalid, "packing flags of 2 bytes in 1", 16),
        (COMMAND, "0401" + "0100" + "0100" + "0571", CommandInvalid, "a value of 5 bytes in 1", 18),
        (CONTROL, "0401" + "0000", FramingError, "there is no control 0x0401", 12),
        (CONTROL, "0106" + "0100" + "00", FramingError, "a field of 2 bytes in 1", 16),
        (CONTROL, "01", FramingError, "a control of 1 bytes", 12),
    ],
)
def test_what_is_malformed(kind: int, payload: str, error: type[ProtocolError], message: str, place: int) -> None:
    data = bytes.fromhex(payload)
    frame = Frame(encode_frame(15, kind, 9, data), 1000)
    with pytest.raises(error, match=message) as caught:
        _ = frame.method
    assert caught.value.offset == 1000 + place
    assert caught.value.channel == 9
    assert (caught.value.class_code, caught.value.method_code) == (*data, 0, 0)[:2]
    assert caught.value.scope is (Scope.SESSION if kind == COMMAND else Scope.CONNECTION)


def test_the_field_at_fault_is_named() -> None:
    data = QueueDeclare("q", durable=True).encode()[:-2] + b"\x09q"
    with pytest.raises(CommandInvalid) as caught:
        decode_method(COMMAND, data)
    assert caught.value.field_index == QueueDeclare.fields.index("queue")
    with pytest.raises(FramingError) as framing:
        decode_method(CONTROL, ConnectionTuneOk(1, 2).encode()[:-1])
    assert framing.value.field_index == 1


@pytest.mark.parametrize(
    ("payload", "error", "place"),
    [
        ("000000", CommandInvalid, 12),
        ("00000001" + "04", CommandInvalid, 16),
        ("00000004" + "0401" + "0200" + "ff", CommandInvalid, 20),
        (2 * DeliveryProperties().encode().hex(), IllegalArgument, 20),
        (2 * "00000002ffff", IllegalArgument, 18),
        ("00000004" + "0401" + "0010", CommandInvalid, 18),
    ],
)
def test_a_header_that_is_malformed(payload: str, error: type[ProtocolError], place: int) -> None:
    frame = Frame(encode_frame(7, HEADER, 9, bytes.fromhex(payload)), 1000)
    with pytest.raises(error) as caught:
        _ = frame.header
    assert (caught.value.offset, caught.value.channel) == (1000 + place, 9)


def test_a_header_that_is_malformed_is_not_taken_for_the_last_one() -> None:
    good = Frame(samples.TRANSFER_FRAMES[1])
    assert good.header == samples.HEADER
    bad = Frame(encode_frame(7, HEADER, 1, good.payload + b"\x00"))
    for _ in range(2):
        with pytest.raises(CommandInvalid):
            _ = bad.header


def test_a_segment_is_cut_into_frames() -> None:
    data = bytes(range(100))
    frames = list(map(Frame, samples.split(encode_segment(4, BODY, 1, data, 42))))
    assert [frame.flags for frame in frames] == [0b0110, 0b0100, 0b0100, 0b0101]
    assert b"".join(frame.payload for frame in frames) == data
    assert max(frame.length() for frame in frames) == 42
    (whole,) = map(Frame, samples.split(encode_segment(4, BODY, 1, data)))
    assert whole.flags == 0b0111
    (empty,) = map(Frame, samples.split(encode_segment(4, BODY, 1, b"", 42)))
    assert (empty.flags, empty.payload) == (0b0111, b"")
    assert len(encode_segment(4, BODY, 1, bytes(65_523), 0)) == 65_535
    assert len(samples.split(encode_segment(4, BODY, 1, bytes(65_524), 0))) == 2


def test_bytes_that_a_capture_lost() -> None:
    frame = Frame(samples.TRANSFER_FRAMES[2][:-2] + b"\x00\x00", lost=2)
    assert frame.known_payload == b"hel"


@pytest.mark.parametrize("method", [MessageTransfer("q"), ConnectionTuneOk(1)])
def test_a_method_by_itself(method: Any) -> None:
    assert Frame(encode_method(3, method)).method == method
    assert Frame(encode_method(3, method)).flags == 15


def test_a_header_may_be_empty() -> None:
    assert decode_header(b"").entries == ()


def test_frames_are_chosen_by_what_begins_in_them() -> None:
    methods = (QueueDeclare(), SessionCompleted(), MessageTransfer())
    frames = [Frame(encode_method(1, each)) for each in methods]
    frames += [Frame(encode_frame(3, HEADER, 1, b"")), Frame(encode_frame(7, BODY, 1, b""))]
    unknown = [Frame(encode_frame(15, kind, 1, b"\xee\xee")) for kind in (CONTROL, COMMAND)]
    wanted = bytearray(256)
    assert chosen(frames + unknown, bytes(wanted)) == unknown[:1]
    wanted[SessionCompleted.index] = wanted[QueueDeclare.index] = 1
    assert chosen(frames + unknown, bytes(wanted)) == [*frames[:2], unknown[0]]
