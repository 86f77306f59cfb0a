"""AMQP 0-9-1, as the two ends of a conversation speak it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT, METHOD, encode_method, every_frame
from amqproxy.amqp091.methods import (
    BY_INDEX,
    BasicDeliver,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.protocol_header import HEADER as PROTOCOL_HEADER
from amqproxy.amqp091.wire import Table
from tests.pump.amqp091.random_commands import random_commands
from tests.pump.dialect import Exchange

FRAME_MAX = 131_072
HEARTBEATS = 0
"""None are expected, though some are sent: else the proxy would send its own for a client that is paused."""

TYPES = {METHOD: "method", HEADER: "header", BODY: "body", HEARTBEAT: "heartbeat"}
MESSAGES = (BasicPublish.index, BasicDeliver.index)


class Amqp091Dialect:
    """Its bytes."""

    header = PROTOCOL_HEADER
    answer = b""
    start = encode_method(0, ConnectionStart())
    tune = encode_method(0, ConnectionTune(2047, FRAME_MAX, HEARTBEATS))
    tune_ok = encode_method(0, ConnectionTuneOk(2047, FRAME_MAX, HEARTBEATS)) + encode_method(0, ConnectionOpen("/"))
    open_ok = encode_method(0, ConnectionOpenOk())
    close = encode_method(0, ConnectionClose(200, "done"))
    close_ok = encode_method(0, ConnectionCloseOk())
    forced = encode_method(0, ConnectionClose(320))[:13]
    forced_size = slice(3, 7)

    def start_ok(self, name: str) -> bytes:
        return encode_method(
            0, ConnectionStartOk(Table({"connection_name": name}), "PLAIN", b"\0guest\0guest", "en_US")
        )

    def open_channel(self, channel: int) -> Exchange:
        return encode_method(channel, ChannelOpen()), encode_method(channel, ChannelOpenOk())

    def close_channel(self, channel: int) -> Exchange:
        return encode_method(channel, ChannelClose(200, "", 0, 0)), encode_method(channel, ChannelCloseOk())

    def declare(self, channel: int) -> Exchange:
        return encode_method(channel, QueueDeclare(queue="soak")), encode_method(channel, QueueDeclareOk("soak", 0, 0))

    def frame_size(self, head: bytes) -> int:
        return int.from_bytes(head[3:7]) + 8

    def random_commands(
        self, dice: Random, is_server: bool, sizes: Sequence[int], channels: Sequence[int], most: int = 6
    ) -> bytes:
        return random_commands(dice, is_server, sizes, channels, most)

    def kinds(self, data: bytes, contents: dict[int, str]) -> Iterator[tuple[str, str, bool]]:
        for frame in every_frame(data, 0):
            if frame.kind == METHOD:
                contents[frame.channel] = BY_INDEX[frame.index].name
            method = "" if frame.kind == HEARTBEAT else contents[frame.channel]
            yield TYPES[frame.kind], method, frame.index in MESSAGES
