"""Frames of the bench's 0-10 clients: a handshake, and transfers encoded in advance."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from uuid import UUID

from amqproxy.amqp010.assembly import Assembly, AssemblyReader
from amqproxy.amqp010.commands import (
    ExecutionException,
    ExecutionResult,
    ExecutionSync,
    MessageAccept,
    MessageFlow,
    MessageSubscribe,
    MessageTransfer,
)
from amqproxy.amqp010.controls import (
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
    SessionDetached,
)
from amqproxy.amqp010.domains import AcceptMode, AcquireMode, CreditUnit
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.methods import BY_INDEX, Command, Method
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.structs import Struct
from amqproxy.amqp010.wire import Array, Map
from bench.talk import DEADLINE, read_exactly

FRAME_MAX = 65_535
CHANNEL = 1
INFINITE = 0xFFFF_FFFF
RECEIVE = 256 * 1024
MARK = bytes.fromhex("f7b1d2a90c5e8346")
"""First bytes of each body, which occur nowhere else: messages are counted in the received bytes without decoding."""

_TIME, _ID = 1_760_000_000_001, bytes.fromhex("c1a05f37e2b84d619f3c7a0e5d214b86")

_RANGE = struct.Struct(">2I")
_ONE = SequenceSet([(0, 0)])
_COMPLETED = encode_method(CHANNEL, SessionCompleted(_ONE), FRAME_MAX)[: -_RANGE.size]
_ACCEPT = encode_method(CHANNEL, MessageAccept(_ONE), FRAME_MAX)[: -_RANGE.size]
"""Bytes before the only range of a completion and of an acceptance.

Encoding these commands each time would cost more than a broker's work for them.
"""

_COMPLETIONS = bytes([each in (SessionCompleted, SessionDetached, ExecutionException) for each in BY_INDEX])


_START = ConnectionStart(Map(), Array("str16", ["PLAIN"]), Array("str16", ["en_US"]))
_POINT = encode_method(CHANNEL, SessionCommandPoint(0, 0))
STEPS = (
    (HEADER, HEADER + encode_method(0, _START)),
    (
        encode_method(0, ConnectionStartOk(Map(), "PLAIN", b"\0guest\0guest", "en_US")),
        encode_method(0, ConnectionTune(256, FRAME_MAX, 0, 120)),
    ),
    (
        encode_method(0, ConnectionTuneOk(256, FRAME_MAX, 0)) + encode_method(0, ConnectionOpen("test")),
        encode_method(0, ConnectionOpenOk(Array("str16"))),
    ),
    (
        encode_method(CHANNEL, SessionAttach(b"bench")) + _POINT,
        encode_method(CHANNEL, SessionAttached(b"bench")) + _POINT,
    ),
)
"""Steps of the client in the handshake, each with the broker's answer."""


def connect(port: int) -> socket.socket:
    """Open a connection with an attached session on its channel, from prepared bytes."""
    sock = socket.create_connection(("127.0.0.1", port), DEADLINE)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for sent, answered in STEPS:
        sock.sendall(sent)
        read_exactly(sock, len(answered))
    return sock


def accept(sock: socket.socket) -> None:
    """Act as the broker for `connect`."""
    sock.settimeout(DEADLINE)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for expected, answered in STEPS:
        received = read_exactly(sock, len(expected))
        if received != expected:
            raise ValueError(f"the client's {expected!r} arrived as {received!r}")
        sock.sendall(answered)


class Session:
    """A blocking connection with one session."""

    def __init__(self, port: int, vhost: str) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), DEADLINE)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = FrameReader(frame_max=0)
        self._assemblies = AssemblyReader()
        self._arrived: list[Assembly] = []
        self.sent = 0
        """Number of commands sent."""
        self.completed = 0
        """Id after the last completed command: all commands before it are complete."""
        self.first = 0
        """Id of the broker's first command that has not been read."""
        self.sock.sendall(HEADER)
        header = b""
        while len(header) < len(HEADER):
            header += self.sock.recv(len(HEADER) - len(header))
        self._wait(ConnectionStart)
        self.control(0, ConnectionStartOk(Map(), "PLAIN", b"\0guest\0guest", "en_US"))
        tune = self._wait(ConnectionTune)
        assert isinstance(tune, ConnectionTune)
        self.control(0, ConnectionTuneOk(tune.channel_max, min(tune.max_frame_size or FRAME_MAX, FRAME_MAX), 0))
        self.control(0, ConnectionOpen(vhost))
        self._wait(ConnectionOpenOk)
        name = f"bench-{id(self)}-{self.sock.getsockname()[1]}"
        self.control(CHANNEL, SessionAttach(name.encode()))
        self._wait(SessionAttached)
        self.control(CHANNEL, SessionCommandPoint(0, 0))

    def control(self, channel: int, method: Method) -> None:
        """Send a control."""
        self.sock.sendall(encode_method(channel, method, FRAME_MAX))

    def call(self, *commands: Command) -> Struct | None:
        """Send commands, wait until they are complete, and return the last one's result, if there is one."""
        for command in commands:
            self.sock.sendall(Assembly(CHANNEL, command, None, None).encode(FRAME_MAX))
        self.sent += len(commands) + 1
        self.sync()
        result = None
        for method in self.arriving():
            if isinstance(method, ExecutionResult) and isinstance(method.value, Struct):
                result = method.value
            if self.completed >= self.sent:
                break
        return result

    def sync(self) -> None:
        """Request the completion of all commands sent so far."""
        self.sock.sendall(Assembly(CHANNEL, ExecutionSync(sync=True), None, None).encode(FRAME_MAX))

    def arriving(self) -> Iterator[Method]:
        """Yield arriving methods forever, and track completed commands; not for use while transfers arrive."""
        while True:
            while self._arrived:
                method = self._arrived.pop(0).method
                if isinstance(method, ExecutionException):
                    raise ValueError(str(method))
                if isinstance(method, SessionCompleted):
                    ranges = method.commands.ranges if method.commands is not None else ()
                    self.completed = max([self.completed, *(last + 1 for _, last in ranges)])
                if isinstance(method, SessionCommandPoint):
                    self.first = method.command_id or 0
                elif isinstance(method, Command):
                    self.first += 1
                yield method
            data = self.sock.recv(RECEIVE)
            if not data:
                raise ValueError("the broker has hung up")
            for frame in self._reader.feed(data):
                assembly = self._assemblies.add(frame) if frame.channel else AssemblyReader().add(frame)
                if assembly is not None:
                    self._arrived.append(assembly)

    def wait_completed(self, end: int) -> None:
        """Wait until all commands before `end` are complete, decoding only completions, detachments and exceptions."""
        self._reader.want(_COMPLETIONS, content=False)
        for _ in self.arriving():
            if self.completed >= end:
                break

    def _wait(self, kind: type[Method]) -> Method:
        return next(method for method in self.arriving() if isinstance(method, kind))

    def subscribe(self, queue: str, *, accepts: bool) -> None:
        """Subscribe with infinite credit, after which only transfers are expected."""
        mode = AcceptMode.EXPLICIT if accepts else AcceptMode.NONE
        self.call(MessageSubscribe(queue, "d", mode, AcquireMode.PRE_ACQUIRED))
        for unit in (CreditUnit.BYTE, CreditUnit.MESSAGE):
            self.sock.sendall(Assembly(CHANNEL, MessageFlow("d", unit, INFINITE), None, None).encode(FRAME_MAX))
            self.sent += 1

    def completion(self, first: int, last: int, *, accepts: bool) -> bytes:
        """Return the frames that complete a range of transfers, and accept them; the caller has to send them."""
        ids = _RANGE.pack(first, last)
        if not accepts:
            return _COMPLETED + ids
        self.sent += 1
        return _COMPLETED + ids + _ACCEPT + ids


def transfer(queue: str, size: int, *, accepts: bool) -> bytes:
    """Return the frames of one message.transfer with a body of `size` bytes."""
    entries = (
        DeliveryProperties(routing_key=queue, delivery_mode=1),
        MessageProperties(content_length=size, content_type="application/octet-stream"),
    )
    mode = AcceptMode.EXPLICIT if accepts else AcceptMode.NONE
    command = MessageTransfer("", mode, AcquireMode.PRE_ACQUIRED)
    return Assembly(CHANNEL, command, Header(entries), MARK + bytes(size - len(MARK))).encode(FRAME_MAX)


def transfers_of_jms(queue: str, size: int, count: int) -> bytes:
    """Return the frames of `count` transfers, each with its own message-id and timestamp, like those of JMS clients."""
    entries = (
        DeliveryProperties(priority=4, delivery_mode=1, timestamp=_TIME, routing_key=queue),
        MessageProperties(
            content_length=size,
            message_id=UUID(bytes=_ID),
            content_type="application/octet-stream",
            user_id=b"guest",
            application_headers=Map({"JMS_QPID_DESTTYPE": 0}),
        ),
    )
    command = MessageTransfer("", AcceptMode.NONE, AcquireMode.PRE_ACQUIRED)
    data = Assembly(CHANNEL, command, Header(entries), MARK + bytes(size - len(MARK))).encode(FRAME_MAX)
    before, rest = data.split(_TIME.to_bytes(8))
    between, behind = rest.split(_ID)
    return b"".join(
        [
            b"".join((before, (_TIME + number).to_bytes(8), between, _ID[:12], number.to_bytes(4), behind))
            for number in range(count)
        ]
    )
