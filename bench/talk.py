"""Frames of the bench's 0-9-1 client and broker: a handshake, and messages encoded in advance."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import METHOD, encode_method
from amqproxy.amqp091.methods import (
    METHODS,
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicPublish,
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
    QueueDeclare,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.wire import Table

T = TypeVar("T")

CHANNEL_MAX = 2047
FRAME_MAX = 131_072
FRAME_END = 0xCE
DEADLINE = 60.0
"""Seconds without data after which a measurement fails."""

AT_ONCE = 500
"""Methods that are sent before the first answer is read."""

CONSUMER = "bench"
PROPERTIES = Properties(content_type="application/octet-stream", delivery_mode=1)
PERSISTENT = Properties(content_type="application/octet-stream", delivery_mode=2)

CLOSE = encode_method(0, ConnectionClose(200, "done"))
CLOSE_OK = encode_method(0, ConnectionCloseOk())
"""The end of every flood: the side that counts the bytes answers the close after them."""


def publish(
    body: bytes,
    *,
    exchange: str = "",
    routing_key: str = "bench",
    channel: int = 1,
    properties: Properties = PROPERTIES,
) -> bytes:
    """Return the frames of one basic.publish."""
    method = BasicPublish(exchange=exchange, routing_key=routing_key)
    return Command(channel, method, properties, body).encode(FRAME_MAX)


def delivery(
    body: bytes,
    *,
    tag: int = 1,
    exchange: str = "",
    routing_key: str = "bench",
    channel: int = 1,
    consumer: str = CONSUMER,
) -> bytes:
    """Return the frames of one basic.deliver."""
    method = BasicDeliver(consumer_tag=consumer, delivery_tag=tag, exchange=exchange, routing_key=routing_key)
    return Command(channel, method, PROPERTIES, body).encode(FRAME_MAX)


def ack(tag: int = 1, *, multiple: bool = False, channel: int = 1) -> bytes:
    """Return the frame of one basic.ack."""
    return encode_method(channel, BasicAck(delivery_tag=tag, multiple=multiple))


# The client's steps of the handshake, each with the broker's answer.
_CAPABILITIES = Table({"capabilities": Table({"consumer_cancel_notify": True, "publisher_confirms": True})})
_START_OK = encode_method(0, ConnectionStartOk(_CAPABILITIES, "PLAIN", b"\0guest\0guest", "en_US"))
_TUNED = encode_method(0, ConnectionTuneOk(CHANNEL_MAX, FRAME_MAX, 0))
_OPEN = encode_method(0, ConnectionOpen("/"))
_CHANNEL_OPEN = encode_method(1, ChannelOpen())
_CONFIRM = encode_method(1, ConfirmSelect())
_DECLARE = encode_method(1, QueueDeclare(queue="bench", auto_delete=True))
_CONSUME = encode_method(1, BasicConsume(queue="bench", consumer_tag=CONSUMER, no_ack=True))

ANSWERS = (
    (HEADER, encode_method(0, ConnectionStart(server_properties=_CAPABILITIES))),
    (_START_OK, encode_method(0, ConnectionTune(CHANNEL_MAX, FRAME_MAX, 0))),
    (_TUNED + _OPEN, encode_method(0, ConnectionOpenOk())),
    (_CHANNEL_OPEN, encode_method(1, ChannelOpenOk())),
)
CONFIRMING = (_CONFIRM, encode_method(1, ConfirmSelectOk()))
_CONSUMING = (_CONSUME, encode_method(1, BasicConsumeOk(CONSUMER)))


def connect(
    port: int, source: str = "", channel_max: int = CHANNEL_MAX, context: ssl.SSLContext | None = None
) -> socket.socket:
    """Open a connection with channel 1; from another address of this machine, if `source` is given.

    With a `context`, the connection is over TLS.
    """
    sock = socket.create_connection(("127.0.0.1", port), DEADLINE, (source, 0) if source else None)
    if context is not None:
        sock = context.wrap_socket(sock)
    open_together([sock], channel_max=channel_max)
    return sock


def open_together(socks: Sequence[socket.socket], channel_max: int = CHANNEL_MAX) -> None:
    """Open connections with channel 1 on connected sockets, all of them step by step: none waits for another."""
    tuned = encode_method(0, ConnectionTuneOk(channel_max, FRAME_MAX, 0))
    for sock in socks:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for sent, _ in ANSWERS:
        for sock in socks:
            sock.sendall(sent.replace(_TUNED, tuned))
        for sock in socks:
            read_method(sock)


def ask(sock: socket.socket, methods: Iterable[Method]) -> list[bytes]:
    """Send methods on channel 1, up to `AT_ONCE` at a time, and return the payloads of their answers."""
    answers = []
    for some in batched(methods, AT_ONCE):
        sock.sendall(b"".join(encode_method(1, method) for method in some))
        answers += [read_payload(sock) for _ in some]
    return answers


def batched(things: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of `size` things, the last one shorter if necessary."""
    left = iter(things)
    while some := list(islice(left, size)):
        yield some


def select_confirms(sock: socket.socket) -> None:
    """Put channel 1 into confirm mode."""
    sock.sendall(_CONFIRM)
    read_method(sock)


def consume(sock: socket.socket, *, declare: bool = False) -> None:
    """Consume from the queue "bench" on channel 1, without acknowledgements; with `declare`, declare it first."""
    for method in (_DECLARE, _CONSUME) if declare else (_CONSUME,):
        sock.sendall(method)
        read_method(sock)


def answer(sock: socket.socket, *, confirms: bool = False, consumes: bool = False) -> None:
    """Act as the broker for `connect` and the steps after it, with prepared frames."""
    sock.settimeout(DEADLINE)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    steps = ANSWERS + (CONFIRMING,) * confirms + (_CONSUMING,) * consumes
    for expected, answered in steps:
        received = read_exactly(sock, len(expected))
        if received != expected:
            raise ValueError(f"the client's {expected!r} arrived as {received!r}")
        sock.sendall(answered)


def read_method(sock: socket.socket) -> type[Method]:
    """Read the next frame, and return its method's class."""
    return METHODS[int.from_bytes(read_payload(sock)[:4])]


def read_payload(sock: socket.socket) -> bytes:
    """Read the next frame's payload; `ValueError` unless it is a method that closes nothing."""
    kind, _, size = struct.unpack(">BHI", read_exactly(sock, 7))
    payload = read_exactly(sock, size + 1)[:-1]
    if kind != METHOD or METHODS[int.from_bytes(payload[:4])] in (ConnectionClose, ChannelClose):
        raise ValueError(f"the broker refused: {payload!r}")
    return payload


def read_exactly(sock: socket.socket, size: int) -> bytes:
    """Read exactly `size` bytes."""
    received = bytearray()
    while len(received) < size:
        data = sock.recv(size - len(received))
        if not data:
            raise ValueError(f"closed after {len(received)} of {size} bytes: {bytes(received)!r}")
        received += data
    return bytes(received)
