"""A client of AMQP 0-10 over a socket: what a test sends, and what it waits for."""

from __future__ import annotations

import socket
import time
from types import TracebackType
from typing import Any, Self

from amqproxy.amqp010.assembly import Assembly, AssemblyReader
from amqproxy.amqp010.commands import MessageFlow, MessageSubscribe, MessageTransfer
from amqproxy.amqp010.controls import (
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    SessionAttach,
    SessionCommandPoint,
)
from amqproxy.amqp010.domains import CreditUnit
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.wire import Map

DEADLINE = 20.0
INFINITE = 0xFFFFFFFF


class Amqp010Peer:
    """An open connection. `received` are all assemblies that have come and were not expected."""

    def __init__(self, port: int, vhost: str = "/", user: str = "guest", password: str = "guest") -> None:
        self.received: list[Assembly] = []
        self._socket = socket.create_connection(("127.0.0.1", port), DEADLINE)
        self._reader = FrameReader(frame_max=0)
        self._assemblies: dict[int, AssemblyReader] = {}
        self._greeting = bytearray()
        self._socket.sendall(HEADER)
        self.expect("connection.start")
        response = f"\0{user}\0{password}".encode()
        self.send(0, ConnectionStartOk(Map({"clientName": "test"}), "PLAIN", response, "en_US"))
        self.expect("connection.tune")
        self.send(0, ConnectionTuneOk(100, 65_535, 0))
        self.send(0, ConnectionOpen(vhost))
        self.expect("connection.open-ok")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def attach(self, channel: int = 1, name: bytes = b"session") -> None:
        """Attach a session, whose commands are numbered from 0 on."""
        self.send(channel, SessionAttach(name))
        self.expect("session.attached")
        self.send(channel, SessionCommandPoint(0, 0))

    def send(self, channel: int, *methods: Method) -> None:
        """Send controls or commands without content."""
        self._socket.sendall(b"".join([encode_method(channel, method) for method in methods]))

    def publish(
        self, channel: int, body: bytes, *, exchange: str = "", key: str = "", accept_mode: int = 0, **headers: Any
    ) -> None:
        """Transfer a message, and ask for its completion."""
        properties = MessageProperties(content_length=len(body), application_headers=Map(headers) if headers else None)
        header = Header((DeliveryProperties(routing_key=key), properties))
        transfer = MessageTransfer(exchange, accept_mode, 0, sync=True)
        self._socket.sendall(Assembly(channel, transfer, header, body).encode())

    def subscribe(
        self, channel: int, queue: str, tag: str = "c", *, accept_mode: int = 0, credit: int = INFINITE
    ) -> None:
        """Subscribe with so many messages of credit."""
        self.send(
            channel,
            MessageSubscribe(queue, tag, accept_mode, 0),
            MessageFlow(tag, CreditUnit.MESSAGE, credit),
            MessageFlow(tag, CreditUnit.BYTE, INFINITE),
        )

    def expect(self, *names: str) -> Assembly:
        """The next assembly with one of these names; those before it are kept in `received`."""
        stop = time.monotonic() + DEADLINE
        while True:
            for place, assembly in enumerate(self.received):
                if assembly.method.name in names:
                    return self.received.pop(place)
            assert time.monotonic() < stop, [each.method for each in self.received]
            self._receive()

    def _receive(self) -> None:
        data = self._socket.recv(65_536)
        assert data, [each.method for each in self.received]
        if len(self._greeting) < len(HEADER):
            missing = len(HEADER) - len(self._greeting)
            self._greeting += data[:missing]
            data = data[missing:]
            assert HEADER.startswith(bytes(self._greeting))
        for frame in self._reader.feed(data):
            reader = self._assemblies.setdefault(frame.channel, AssemblyReader())
            assembly = reader.add(frame)
            if assembly is not None:
                self.received.append(assembly)
