"""A connection to a broker that has opened a virtual host, and the broker's side of it."""

from __future__ import annotations

from collections.abc import Iterable

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.methods import (
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.amqp091.wire import Table

CHANNEL_MAX = 2047


def open_connection(channel_max: int = CHANNEL_MAX, frame_max: int = 131_072) -> Connection:
    """Return a connection after connection.open-ok."""
    connection = Connection(initial_frame_max=131_072)
    connection.receive_header(CLIENT, HEADER)
    for sender, method in (
        (SERVER, ConnectionStart(0, 9, Table({}), b"PLAIN", b"en_US")),
        (CLIENT, ConnectionStartOk(Table({}), "PLAIN", b"\0guest\0guest", "en_US")),
        (SERVER, ConnectionTune(channel_max, frame_max, 0)),
        (CLIENT, ConnectionTuneOk(channel_max, frame_max, 0)),
        (CLIENT, ConnectionOpen("/")),
        (SERVER, ConnectionOpenOk()),
    ):
        connection.send(sender, 0, method)
    return connection


class BrokerSide:
    """The broker of a connection: reads what it is sent, and writes methods."""

    def __init__(self, frame_max: int = 131_072) -> None:
        self.connection = open_connection(frame_max=frame_max)

    def read(self, data: bytes) -> list[Frame]:
        """Return the frames that it is sent; raises `ProtocolError` for one that may not be sent."""
        return self.connection.feed(CLIENT, data)

    def write(self, *methods: tuple[int, Method]) -> bytes:
        """Return the bytes of methods on channels."""
        return b"".join([self.connection.send(SERVER, channel, method) for channel, method in methods])


def methods_in(frames: Iterable[Frame]) -> list[tuple[int, Method]]:
    """Return the methods of frames, each with its channel."""
    return [(frame.channel, frame.method) for frame in frames if frame.index >= 0]
