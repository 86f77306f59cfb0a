"""The bytes with which a client opens a connection and its first channel."""

from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import (
    ChannelOpen,
    ConnectionOpen,
    ConnectionTuneOk,
)
from amqproxy.amqp091.protocol_header import HEADER
from tests.broker.client import Client


def opening(heartbeat: int = 0) -> bytes:
    methods = [Client.start_ok(b"\0guest\0guest"), ConnectionTuneOk(2047, 131_072, heartbeat), ConnectionOpen("/")]
    return HEADER + b"".join(encode_method(0, each) for each in methods) + encode_method(1, ChannelOpen())


OPENING = opening()
