"""Frames that tests take."""

from __future__ import annotations

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.controls import ConnectionHeartbeat, SessionCompleted
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.tally import METHOD_COUNT

NOTHING = bytes(METHOD_COUNT)
"""No control or command is wanted."""

HEADER = Header((DeliveryProperties(priority=4, routing_key="q"), MessageProperties(content_length=5)))
MESSAGE = Assembly(1, MessageTransfer("", 0, 0), HEADER, b"hello")
TRANSFER = MESSAGE.encode()


def split(data: bytes) -> list[bytes]:
    """The frames in `data`."""
    frames = []
    while data:
        size = int.from_bytes(data[2:4])
        frames.append(data[:size])
        data = data[size:]
    return frames


TRANSFER_FRAMES = split(TRANSFER)
COMPLETED = encode_method(1, SessionCompleted(SequenceSet([(0, 3)])))
HEARTBEAT = encode_method(0, ConnectionHeartbeat())
