"""A broker in this process, which answers what every broker does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import trio

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import AccessRefused
from amqproxy.amqp091.frame import METHOD, Frame
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
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
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.amqp091.wire import Table
from amqproxy.proxy.amqp091.pools.shared_upstream import SharedUpstream
from amqproxy.sockets.transport import TransportBroken
from tests.proxy.amqp091.pools.open_connection import open_connection


class ScriptedBroker:
    """The `Transport` to a broker that accepts the passwords in `accepts`; `methods` are those that it was sent.

    It closes the connection for the methods in `closes`, and leaves those in `unanswered` to the test. Queues in
    `missing` are not there.
    """

    tls = None
    is_listening = True
    is_sending = False
    progress = 0

    def __init__(
        self,
        accepts: Iterable[str] = (),
        closes: Mapping[type[Method], ConnectionClose] | None = None,
        unanswered: Iterable[type[Method]] = (),
    ) -> None:
        self.accepts = accepts
        self.closes = {} if closes is None else closes
        self.unanswered = set(unanswered)
        self.missing: set[str] = set()
        self.connection = Connection(initial_frame_max=131_072)
        self.methods: list[tuple[int, Method]] = []
        self.received = 0
        self.is_closed = False
        self.takes_bytes = True
        self._tags: dict[int, int] = {}
        self._output: list[bytes] = []
        self._changed = trio.Event()

    @classmethod
    def opened(cls, *unanswered: type[Method], frame_max: int = 131_072) -> Self:
        """Return a broker of a connection whose virtual host is open."""
        broker = cls(unanswered=unanswered)
        broker.connection = open_connection(frame_max=frame_max)
        return broker

    def upstream(self, on_end: Callable[[SharedUpstream, str], None] = lambda upstream, reason: None) -> SharedUpstream:
        """Return the proxy's side of such a connection, to be shared."""
        return SharedUpstream(self, open_connection(frame_max=self.connection.frame_max), on_end)

    def of(self, kind: type[Method]) -> list[Any]:
        """Return the methods of one class that it was sent."""
        return [method for _, method in self.methods if isinstance(method, kind)]

    def write(self, channel: int, *methods: Method) -> None:
        """Send methods of its own accord."""
        for each in methods:
            self._output.append(self.connection.send(SERVER, channel, each))
        self._changed.set()

    def write_bytes(self, data: bytes) -> None:
        """Send bytes that need not be whole frames."""
        self._output.append(data)
        self._changed.set()

    def hang_up(self) -> None:
        self.is_closed = True
        self._changed.set()

    def _take(self, data: bytes) -> None:
        if data.startswith(HEADER):
            self.connection.receive_header(CLIENT, HEADER)
            self.write(0, ConnectionStart(0, 9, Table({"product": "scripted"}), b"PLAIN AMQPLAIN", b"en_US"))
            data = data[len(HEADER) :]
        for frame in self.connection.feed(CLIENT, data):
            if frame.kind == METHOD:
                self._answer(frame)

    def _answer(self, frame: Frame) -> None:
        method: Method = frame.method
        self.methods.append((frame.channel, method))
        if type(method) in self.closes:
            self.write(0, self.closes[type(method)])
            return
        if type(method) in self.unanswered:
            return
        match method:
            case ConnectionStartOk(response=response):
                if response.rpartition(b"\0")[2].decode() in self.accepts:
                    self.write(0, ConnectionTune(2047, 131_072, 0))
                else:
                    self.write(0, ConnectionClose(AccessRefused.code, "ACCESS_REFUSED - Login was refused", 0, 0))
            case ConnectionOpen():
                self.write(0, ConnectionOpenOk())
            case ConnectionUpdateSecret():
                self.write(0, ConnectionUpdateSecretOk())
            case ConnectionClose():
                self.write(0, ConnectionCloseOk())
                self.is_closed = True
            case ChannelOpen():
                self.write(frame.channel, ChannelOpenOk())
            case ChannelFlow():
                self.write(frame.channel, ChannelFlowOk(True))
            case ChannelClose():
                self.write(frame.channel, ChannelCloseOk())
                self._tags.pop(frame.channel, None)
            case ConfirmSelect(no_wait=no_wait):
                self._tags[frame.channel] = 0
                if not no_wait:
                    self.write(frame.channel, ConfirmSelectOk())
            case QueueDeclare(queue=queue, passive=True) if queue in self.missing:
                self.write(frame.channel, ChannelClose(404, f"NOT_FOUND - no queue '{queue}' in vhost '/'", 50, 10))
            case QueueBind():
                self.write(frame.channel, QueueBindOk())
            case QueueDeclare(queue=queue):
                self.write(frame.channel, QueueDeclareOk(queue, 0, 0))
            case BasicPublish():
                if frame.channel in self._tags:
                    self._tags[frame.channel] += 1
                    self.write(frame.channel, BasicAck(self._tags[frame.channel], False))
            case _:
                pass

    # --- the transport

    async def receive(self) -> bytes:
        while not self._output and not self.is_closed:
            self._changed = trio.Event()
            await self._changed.wait()
        data = b"".join(self._output)
        self._output.clear()
        self.received += len(data)
        return data

    async def send(self, data: bytes | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        if self.is_closed:
            raise TransportBroken("closed by the broker")
        self._take(bytes(data))

    def send_now(self, data: bytes | memoryview) -> int:
        if not self.takes_bytes:
            return 0
        if self.is_closed:
            raise TransportBroken("closed by the broker")
        self._take(bytes(data))
        return len(data)

    def send_pieces_now(self, pieces: Sequence[bytes | memoryview]) -> int:
        return self.send_now(b"".join(pieces))

    async def send_some(self, pieces: Sequence[bytes | memoryview]) -> int:
        await self.send(pieces[0])
        return len(pieces[0])

    def has_hung_up(self) -> bool:
        return self.is_closed

    def ends(self) -> None:
        return None

    async def send_eof(self) -> None:
        self.hang_up()

    async def aclose(self) -> None:
        self.hang_up()

    async def reset(self) -> None:
        self.hang_up()
