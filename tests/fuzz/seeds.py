"""Real frames for a run to begin with: what peers send to each other, and values of every type."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT_FRAME, encode_frame, encode_method
from amqproxy.amqp091.methods import (
    BY_INDEX,
    BasicAck,
    BasicDeliver,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionClose,
    QueueDeclare,
)
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.wire import Array, Field, Item, Table

TABLE = Table(
    [
        Field("a", "t", True), Field("b", "b", -1), Field("c", "B", 1), Field("d", "s", -1), Field("e", "u", 1),
        Field("f", "I", -1), Field("g", "i", 1), Field("h", "l", -1), Field("i", "L", -1), Field("j", "f", 0.5),
        Field("k", "d", 0.1), Field("l", "D", Decimal("1.5")), Field("m", "S", "x"), Field("n", "x", b"\0"),
        Field("o", "T", 1), Field("p", "V", None), Field("q", "A", Array([Item("B", 1), Item("F", Table({"z": 1}))])),
        Field("r", "F", Table({"y": None})), Field("a", "U", -1),
    ]
)  # fmt: skip
EVERYTHING = Properties("a", "b", TABLE, 1, 2, "c", "d", "e", "f", 3, "g", "h", "i", "j")


def content(channel: int, properties: Properties, *pieces: bytes) -> bytes:
    header = ContentHeader(sum(map(len, pieces)), properties).encode()
    return encode_frame(HEADER, channel, header) + b"".join(encode_frame(BODY, channel, each) for each in pieces)


def seeds() -> Iterator[bytes]:
    """Inputs as `target.check` takes them."""
    publish, deliver = encode_method(1, BasicPublish(0, "e", "k", True)), encode_method(1, BasicDeliver("c", 1))
    message = content(1, Properties(delivery_mode=2), b"hello", b"", b"world")
    closing = encode_method(1, ChannelClose()) + encode_method(1, ChannelCloseOk()) + encode_method(1, ChannelOpen())
    for cls in BY_INDEX:
        for channel in (0, 1):
            yield bytes((2 | 1, 0)) + encode_method(channel, cls())
            yield bytes((2, 5)) + encode_method(channel, cls())
    yield b"\x06\x01" + publish + message + HEARTBEAT_FRAME + publish + content(1, EVERYTHING)
    yield b"\x0e\x03" + publish + message + closing + publish + message
    yield b"\x07\x01" + deliver + message + encode_method(1, BasicAck(1)) + encode_method(0, ConnectionClose())
    yield b"\x02\x04" + encode_method(2, QueueDeclare(queue="q", arguments=TABLE)) + publish + message[:40]
    yield b"\x10\x02" + encode_method(0, ConnectionClose())
