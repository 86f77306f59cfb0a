"""The walk that the writers of frames share: what is usual needs no record, and what is unusual gets one."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.controls import ConnectionOpenOk
from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp010.frame import encode_method as encode_amqp010_method
from amqproxy.amqp091.frame import HEARTBEAT_FRAME, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import BasicPublish, ConnectionSecureOk
from amqproxy.capture import frame_writer
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import Decoded, StreamEnded
from amqproxy.capture.frame_columns import FrameColumns
from amqproxy.capture.frame_writer import FrameWriter
from amqproxy.capture.json_lines import JSONLines
from amqproxy.capture.text_lines import TextLines
from amqproxy.taps.amqp091.chunk import Amqp091Chunk
from amqproxy.taps.note import Note
from tests.capture.any_frames import WHERE

USUAL = [HEARTBEAT_FRAME, encode_method(1, BasicPublish(routing_key="q")), encode_frame(3, 1, b"hello")]
ODD = encode_frame(2, 1, b"too short")


def writers() -> list[FrameWriter]:
    return [JSONLines(3), TextLines(3), FrameColumns(lambda columns, rows: None, rows=100, body=3, arguments=True)]


@pytest.mark.parametrize("number", range(3))
def test_usual_frames_need_no_record(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    passed = Amqp091DecodedFrames(*WHERE, Amqp091Chunk(b"".join(USUAL), 0))
    writer = writers()[number]
    assert writer.add(passed) == 3
    with monkeypatch.context() as patch:
        patch.setattr(frame_writer, "records_of", None)
        assert writer.add(passed) == 3


@pytest.mark.parametrize("number", range(3))
def test_every_frame_of_an_item_is_counted_once(number: int) -> None:
    data = [USUAL[0], ODD, USUAL[1]]
    opened = Amqp010Frame(encode_amqp010_method(0, ConnectionOpenOk()))
    as_list = Amqp091DecodedFrames(*WHERE, [Frame(each) for each in data])
    items: list[tuple[Decoded, int]] = [
        (Amqp091DecodedFrames(*WHERE, Amqp091Chunk(b"".join(data), 0)), 3),
        (as_list, 3),
        (Amqp091DecodedFrames(*WHERE, as_list.frames, note=Note(rules=("slow",))), 3),
        (Amqp010DecodedFrames(*WHERE, [opened, opened], command_ids=[None, None]), 2),
        (StreamEnded(1, 1, "a:1-b:2", "closed"), 0),
    ]
    writer = writers()[number]
    assert [writer.add(item) for item, _ in items] == [count for _, count in items]


def test_a_secret_is_masked_by_each_writer_of_lines() -> None:
    passed = Amqp091DecodedFrames(*WHERE, [Frame(encode_method(0, ConnectionSecureOk(response=b"hidden")))])
    for lines in (JSONLines(), TextLines()):
        lines.add(passed)
        assert b"hidden" not in lines.take()
