"""AMQP 0-10, as the two ends of a conversation speak it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from amqproxy.amqp010.commands import MessageTransfer, QueueDeclare
from amqproxy.amqp010.controls import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    SessionAttach,
    SessionAttached,
    SessionCommandPoint,
    SessionCompleted,
    SessionDetach,
    SessionDetached,
)
from amqproxy.amqp010.domains import SegmentType
from amqproxy.amqp010.frame import FIRST_FRAME, encode_method
from amqproxy.amqp010.methods import BY_INDEX
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Array, Map
from tests.pump.amqp010.random_commands import frames_of, random_amqp010_commands
from tests.pump.dialect import Exchange

FRAME_MAX = 65_535
NAMES = {(each.segment, each.class_code, each.method_code): each.name for each in BY_INDEX}


class Amqp010Dialect:
    """Its bytes. A session on a channel is what a channel is there."""

    header = HEADER
    answer = HEADER
    start = encode_method(0, ConnectionStart(Map(), Array("str16", ["PLAIN"]), Array("str16", ["en_US"])))
    tune = encode_method(0, ConnectionTune(2047, FRAME_MAX, 0, 0))
    tune_ok = encode_method(0, ConnectionTuneOk(2047, FRAME_MAX, 0)) + encode_method(0, ConnectionOpen("test"))
    open_ok = encode_method(0, ConnectionOpenOk())
    close = encode_method(0, ConnectionClose(200, "done"))
    close_ok = encode_method(0, ConnectionCloseOk())
    forced = encode_method(0, ConnectionClose(320, "text"))[:18]
    forced_size = slice(2, 4)

    def start_ok(self, name: str) -> bytes:
        return encode_method(0, ConnectionStartOk(Map({"process": name}), "PLAIN", b"\0guest\0guest", "en_US"))

    def open_channel(self, channel: int) -> Exchange:
        name, point = b"session-%d" % channel, encode_method(channel, SessionCommandPoint(0, 0))
        return (
            encode_method(channel, SessionAttach(name)) + point,
            encode_method(channel, SessionAttached(name)) + point,
        )

    def close_channel(self, channel: int) -> Exchange:
        name = b"session-%d" % channel
        return encode_method(channel, SessionDetach(name)), encode_method(channel, SessionDetached(name, 0))

    def declare(self, channel: int) -> Exchange:
        done = SessionCompleted(SequenceSet([(0, 0)]))
        return encode_method(channel, QueueDeclare(queue="soak")), encode_method(channel, done)

    def frame_size(self, head: bytes) -> int:
        return int.from_bytes(head[2:4])

    def random_commands(
        self, dice: Random, is_server: bool, sizes: Sequence[int], channels: Sequence[int], most: int = 6
    ) -> bytes:
        return random_amqp010_commands(dice, sizes, channels, most, dice.choice([1000, FRAME_MAX]))

    def kinds(self, data: bytes, contents: dict[int, str]) -> Iterator[tuple[str, str, bool]]:
        for frame in frames_of(data):
            segment, track = SegmentType(frame[1]), int.from_bytes(frame[6:8]) << 1 | frame[5]
            begins = segment <= SegmentType.COMMAND and frame[0] & FIRST_FRAME != 0
            if begins:
                contents[track] = NAMES[segment, frame[12], frame[13]]
            yield segment.name.lower(), contents[track], begins and contents[track] == MessageTransfer.name
