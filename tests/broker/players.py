"""Two ways to play a program's connections: to our model, octets in and octets out, and to a broker behind a port."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from amqproxy.amqp091.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    Method,
    QueueDeclare,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.broker.broker import Broker
from tests.behaviours import client as real
from tests.broker import client as own

Heard = tuple[int, int, Any]
"""The connection, the channel, and the command that came there."""

CHANNELS = (1, 2)


class PatientClient(own.Client):
    """Once it `is_waiting`, it sends what it says all at once, when it is told to."""

    is_waiting = False
    unsent = b""

    def feed(self, octets: bytes) -> None:
        self.unsent += octets
        if not self.is_waiting:
            self.flush()

    def flush(self) -> None:
        octets, self.unsent = self.unsent, b""
        super().feed(octets)


class OwnPlayer:
    """Clients of a `Broker`, with no sockets between."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.clients: dict[int, PatientClient] = {}

    def open(self, connection: int) -> None:
        self.clients[connection] = opened = PatientClient(self.broker)
        opened.open()
        for number in CHANNELS:
            opened.channel(number)
        opened.is_waiting = True

    def say(self, connection: int, channel: int, method: Method, body: bytes = b"", **properties: Any) -> None:
        self.clients[connection].say(channel, method, body, **properties)

    def hear(self, queues: Iterable[tuple[str, int]]) -> list[Heard]:
        """All that came of what was said; `queues` are those that may have to do with it, and who may look at them."""
        heard = []
        for client in self.clients.values():
            client.flush()
        for connection, client in self.clients.items():
            for received in client.receive():
                heard.append((connection, received.channel, received))
                if isinstance(received.method, ConnectionClose):
                    client.say(0, ConnectionCloseOk())
            client.flush()
        return heard

    def part(self, connection: int) -> None:
        """Hear the answer to connection.close."""
        client = self.clients[connection]
        client.flush()
        assert [each.method.name for each in client.receive()] == ["connection.close-ok"]

    def drop(self, connection: int) -> None:
        """The client is gone without a word."""
        self.clients.pop(connection).link.lose(1000.0)

    def stop(self) -> None:
        """Nothing is left of it."""


class RealPlayer:
    """Clients of whatever listens on a port, each with a channel more to look at queues with."""

    OBSERVER = 100

    def __init__(self, port: int) -> None:
        self.port = port
        self.clients: dict[int, real.Client] = {}
        self.closing: set[tuple[int, int]] = set()

    def open(self, connection: int) -> None:
        self.clients[connection] = opened = real.Client(self.port).open()
        for number in (*CHANNELS, self.OBSERVER):
            opened.channel(number)

    def say(self, connection: int, channel: int, method: Method, body: bytes = b"", **properties: Any) -> None:
        self._channel(connection, channel).send(method, body, **properties)
        if isinstance(method, ChannelClose):
            self.closing.add((connection, channel))

    def _channel(self, connection: int, number: int) -> real.Channel:
        channel = object.__new__(real.Channel)
        channel.client, channel.number = self.clients[connection], number
        channel.client.inboxes.setdefault(number, real.deque())
        return channel

    def hear(self, queues: Iterable[tuple[str, int]]) -> list[Heard]:
        """All that came until nothing more did, while every channel and queue has answered three times."""
        heard: list[Heard] = []
        closed: set[tuple[int, int]] = set()
        quiet = 0
        while quiet < 3:
            before = len(heard)
            for connection, client in self.clients.items():
                if (connection, 0) in closed:
                    continue
                try:
                    for number in CHANNELS:
                        if (connection, number) not in closed:
                            self._settle(connection, number, heard, closed)
                    for name, owner in queues:
                        if owner == connection:
                            self._look_at(connection, name)
                except real.Closed as error:
                    closed.add((connection, 0))
                    heard += [(connection, number, each) for number in CHANNELS for each in client.inboxes[number]]
                    heard.append((connection, 0, real.Received(error.method, Properties(), b"")))
            quiet = 0 if len(heard) > before else quiet + 1
        return heard

    def _settle(self, connection: int, number: int, heard: list[Heard], closed: set[tuple[int, int]]) -> None:
        """Hear what comes on a channel until it answers."""
        channel = self._channel(connection, number)
        is_asked = (connection, number) in self.closing
        while True:
            if not is_asked and not channel.inbox:
                is_asked = True
                channel.send(ChannelFlow(True))
            received = channel.next()
            if isinstance(received.method, ChannelFlowOk):
                return
            heard.append((connection, number, received))
            if isinstance(received.method, (ChannelClose, ChannelCloseOk)):
                closed.add((connection, number))
                self.closing.discard((connection, number))
                return

    def _look_at(self, connection: int, queue: str) -> None:
        """Let a queue answer, if it is still there."""
        channel = self._channel(connection, self.OBSERVER)
        try:
            channel.call(QueueDeclare(queue=queue, passive=True))
        except real.Closed as error:
            if isinstance(error.method, ConnectionClose):
                raise
            channel.call(ChannelOpen())

    def part(self, connection: int) -> None:
        self.clients[connection].zero.expect(ConnectionCloseOk)

    def drop(self, connection: int) -> None:
        self.clients.pop(connection).abandon()

    def stop(self) -> None:
        for client in self.clients.values():
            client.close()
        cleaner = real.Client(self.port).open()
        channel = cleaner.channel()
        for name in NAMES:
            channel.call(real.BY_NAME["queue.delete" if name[0] == "q" else "exchange.delete"](0, name))
        cleaner.close()


NAMES = ("q0", "q1", "q2", "q3", "x0", "x1", "x2")
"""Queues and exchanges that programs use."""
