"""A client of AMQP 0-10 that sends what it is given, over a socket, and reads until what it waits for has come."""

from __future__ import annotations

import socket

from amqproxy.amqp010.assembly import Assembly, AssemblyReader
from amqproxy.amqp010.controls import (
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    SessionAttach,
    SessionCommandPoint,
)
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.wire import Map

PATIENCE = 30.0


class RawClient:
    """Logged in with the response, and attached to a session on channel 1."""

    def __init__(self, port: int, vhost: str = "test", response: bytes = b"\0guest\0guest") -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._reader = FrameReader(frame_max=0)
        self._assemblies: dict[int, AssemblyReader] = {}
        self._came: list[Method] = []
        self._socket.sendall(HEADER)
        assert self._socket.recv(len(HEADER), socket.MSG_WAITALL) == HEADER
        self.wait_for("connection.start")
        self.say(ConnectionStartOk(Map(), "PLAIN", response, "en_US"), 0)
        self.wait_for("connection.tune")
        self.say(ConnectionTuneOk(), 0)
        self.say(ConnectionOpen(vhost), 0)
        self.wait_for("connection.open-ok")
        self.say(SessionAttach(f"raw {id(self)}".encode()))
        self.say(SessionCommandPoint(0, 0))
        self.wait_for("session.attached")

    def say(self, method: Method, channel: int = 1) -> None:
        self.send(encode_method(channel, method))

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def wait_for(self, *names: str) -> Method:
        """The first control or command of one of these names; those before it are thrown away."""
        while True:
            while self._came:
                method = self._came.pop(0)
                if method.name in names:
                    return method
            data = self._socket.recv(65_536)
            if not data:
                self._socket.close()
                raise AssertionError(f"closed before {', '.join(names)}")
            for frame in self._reader.feed(data):
                assembly = self._assemblies.setdefault(frame.channel, AssemblyReader()).add(frame)
                if isinstance(assembly, Assembly):
                    self._came.append(assembly.method)

    def close(self) -> None:
        self._socket.close()
