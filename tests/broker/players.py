"""Two ways to play a program's connections: to our model, bytes in and bytes out, and to a broker behind a port."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any

from amqproxy.amqp091.methods import (
    BasicAck,
    BasicNack,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
    Method,
    QueueDeclare,
    TxCommit,
    TxCommitOk,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.broker.broker import Broker
from amqproxy.broker.definitions.recovery import DefinitionRecorder, restore
from amqproxy.broker.queues.queue_storage import QueueStorage
from amqproxy.broker.storage.batch import JournalBatch
from amqproxy.broker.storage.journal import Journal
from amqproxy.broker.storage.store import Store
from tests.behaviours import client as real
from tests.broker import client as own
from tests.broker.disk import Memory

Arrival = tuple[int, int, Any]
"""The connection, the channel, and the command that came there."""

CHANNELS = (1, 2)

OPERATIONS = 3
"""How little a turn may do, where it may do little."""


class PatientClient(own.Client):
    """Once it `is_waiting`, it sends all methods at once, on demand."""

    is_waiting = False
    unsent = b""

    def feed(self, data: bytes) -> None:
        self.unsent += data
        if not self.is_waiting:
            self.flush()

    def flush(self) -> None:
        data, self.unsent = self.unsent, b""
        super().feed(data)


class OwnPlayer:
    """Clients of a `Broker`, with no sockets between."""

    is_concurrent = False

    def __init__(self) -> None:
        self.broker = Broker()
        self.clients: dict[int, PatientClient] = {}
        self.paged = Memory()

    def open(self, connection: int) -> None:
        self.clients[connection] = opened = PatientClient(self.broker)
        opened.open()
        for number in CHANNELS:
            opened.channel(number)
        opened.is_waiting = True

    def send(self, connection: int, channel: int, method: Method, body: bytes = b"", **properties: Any) -> None:
        self.clients[connection].send(channel, method, body, **properties)

    def receive_events(self, queues: Iterable[tuple[str, int]]) -> list[Arrival]:
        """All that came of what was sent; `queues` are those that may have to do with it, and who may look at them."""
        arrived = []
        for client in self.clients.values():
            client.flush()
        self.rest()
        for connection, client in self.clients.items():
            for received in client.receive():
                arrived.append((connection, received.channel, received))
                if isinstance(received.method, ConnectionClose):
                    client.send(0, ConnectionCloseOk())
            client.flush()
        self.rest()
        return arrived

    def rest(self) -> None:
        """Let what is left be done, and what is asked of others."""
        while self.broker.work:
            self.broker.work.go_on(1000.0)

    def page_out(self, name: str) -> None:
        """Let a queue, if there is one of that name, keep on the disk what it can."""
        queue = self.broker.vhosts["/"].queues.get(name)
        if queue is not None:
            queue.page_out(self.paged, 1 << 20)

    def part(self, connection: int) -> None:
        """Receive the answer to connection.close."""
        client = self.clients[connection]
        client.flush()
        assert [each.method.name for each in client.receive()] == ["connection.close-ok"]

    def drop(self, connection: int) -> None:
        """The client is gone without a word."""
        self.clients.pop(connection).connection.lose(1000.0)

    def stop(self) -> None:
        """Nothing is left of it."""


class SlicedPlayer(OwnPlayer):
    """A broker whose turns have but a few operations: what does not fit into one is done in later ones."""

    def __init__(self) -> None:
        super().__init__()
        self.broker.work.quantum.limit(OPERATIONS)


class KeptPlayer(OwnPlayer):
    """With a store on a disk that takes everything at once. Turns have `step` operations, where it is given."""

    def __init__(self, step: int | None = None) -> None:
        super().__init__()
        self.step = step
        self.directory = TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        self._start()

    def _start(self) -> None:
        self.broker = Broker()
        if self.step is not None:
            self.broker.work.quantum.limit(self.step)
        self.written: SimpleQueue[JournalBatch] = SimpleQueue()
        self.store = Store(Path(self.directory.name), committed=self.written.put)
        contents = self.store.load()
        self.journal = Journal()
        self.journal.recover(contents.message_logs, contents.shared)
        self.broker.use_storage(QueueStorage(self.journal, self.store.fetch))
        assert restore(self.broker, contents.durables, 1000.0) == []
        self.recorder = DefinitionRecorder(self.broker, self.journal)
        self.recorder.begin(contents.durables)
        self.recorder.compare()

    def rest(self) -> None:
        super().rest()
        while self.journal.is_dirty:
            self.store.submit(self.journal.take_batch())
            self.journal.committed(self.written.get())
            super().rest()

    def restart(self) -> None:
        """The broker is gone without a word, and another finds what it has left."""
        self.rest()
        self.store.close()
        self._start()
        for connection in list(self.clients):
            self.open(connection)

    def stop(self) -> None:
        self.store.close()
        self.directory.cleanup()


class RealPlayer:
    """Clients of whatever listens on a port, each with a channel more to look at queues with."""

    is_concurrent = True
    OBSERVER = 100

    def __init__(self, port: int) -> None:
        self.port = port
        self.clients: dict[int, real.Client] = {}
        self.answering: dict[tuple[int, int], type[Method]] = {}
        """Channels that were asked for what takes its time, or after which nothing may be asked: and the answer."""
        self.unconfirmed: dict[tuple[int, int], list[int]] = {}
        """What was published on channels in confirm mode: 0, and the numbers of what is not confirmed."""
        self.published: Counter[tuple[int, int]] = Counter()

    def open(self, connection: int) -> None:
        self.clients[connection] = opened = real.Client(self.port).open()
        for number in (*CHANNELS, self.OBSERVER):
            opened.channel(number)
            self._forget((connection, number))

    def send(self, connection: int, channel: int, method: Method, body: bytes = b"", **properties: Any) -> None:
        self._channel(connection, channel).send(method, body, **properties)
        place = (connection, channel)
        if isinstance(method, ChannelClose):
            self.answering[place] = ChannelCloseOk
        elif isinstance(method, TxCommit):
            self.answering[place] = TxCommitOk
        elif isinstance(method, BasicPublish) and place in self.unconfirmed:
            self.published[place] += 1
            self.unconfirmed[place].append(self.published[place])

    def _channel(self, connection: int, number: int) -> real.Channel:
        channel = object.__new__(real.Channel)
        channel.client, channel.number = self.clients[connection], number
        channel.client.inboxes.setdefault(number, real.deque())
        return channel

    def receive_events(self, queues: Iterable[tuple[str, int]]) -> list[Arrival]:
        """All that came until nothing more did, while every channel and queue has answered three times."""
        arrived: list[Arrival] = []
        closed: set[tuple[int, int]] = set()
        quiet = 0
        end = time.monotonic() + real.TIMEOUT
        while quiet < 3 or (any(self.unconfirmed.values()) and time.monotonic() < end):
            before = len(arrived)
            for connection, client in self.clients.items():
                if (connection, 0) in closed:
                    continue
                try:
                    for number in CHANNELS:
                        if (connection, number) not in closed:
                            self._settle(connection, number, arrived, closed)
                    for name, owner in queues:
                        if owner == connection:
                            self._look_at(connection, name)
                except real.Closed as error:
                    closed.add((connection, 0))
                    for number in CHANNELS:
                        self._forget((connection, number))
                    arrived += [(connection, number, each) for number in CHANNELS for each in client.inboxes[number]]
                    arrived.append((connection, 0, real.Received(error.method, Properties(), b"")))
            quiet = 0 if len(arrived) > before else quiet + 1
        return arrived

    def _settle(self, connection: int, number: int, arrived: list[Arrival], closed: set[tuple[int, int]]) -> None:
        """Receive what comes on a channel until it answers."""
        channel = self._channel(connection, number)
        place = (connection, number)
        is_asked = False
        while True:
            if not is_asked and not channel.inbox and place not in self.answering:
                is_asked = True
                channel.send(ChannelFlow(True))
            received = channel.next()
            if isinstance(received.method, ChannelFlowOk):
                return
            arrived.append((connection, number, received))
            if isinstance(received.method, self.answering.get(place, ())):
                del self.answering[place]
            match received.method:
                case ConfirmSelectOk():
                    self.unconfirmed.setdefault(place, [])
                case BasicAck(tag, multiple) | BasicNack(tag, multiple):
                    left = [each for each in self.unconfirmed[place] if each > tag or (each != tag and not multiple)]
                    self.unconfirmed[place] = left
                case ChannelClose() | ChannelCloseOk():
                    closed.add(place)
                    self._forget(place)
                    return

    def _forget(self, place: tuple[int, int]) -> None:
        """The channel is closed."""
        self.answering.pop(place, None)
        self.unconfirmed.pop(place, None)
        del self.published[place]

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
