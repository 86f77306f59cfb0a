"""A recording of two hours in which something changes: clients come and go, one becomes faster, deliveries slower."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
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
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.amqp091.wire import Table
from amqproxy.recording.entry import Ended, Entry, RecordedConnection
from amqproxy.recording.recording_encoder import RecordingEncoder
from amqproxy.taps.note import NOTHING, Note

START_NS = 1_767_225_600 * 10**9
"""1 January 2026, 00:00 UTC."""

MINUTES = 120


class Client:
    """A client of a made-up session; its entries are in `entries`."""

    def __init__(self, number: int, name: str, second: float) -> None:
        ends = f"10.0.0.{number}:4711-10.0.0.9:5672"
        self.connection = RecordedConnection(number, ends, is_tls=False, is_joined=False)
        self.entries: list[Entry] = []
        self.number = 0
        self.says(second, CLIENT, HEADER)
        self.says(second, SERVER, ConnectionStart(0, 9, Table(), b"PLAIN", b"en_US"))
        properties = Table({"connection_name": name})
        self.says(second, CLIENT, ConnectionStartOk(properties, "PLAIN", b"\0guest\0secret", "en_US"))
        self.says(second, SERVER, ConnectionTune(2047, 131072, 60))
        self.says(second, CLIENT, ConnectionTuneOk(2047, 131072, 60), ConnectionOpen("/"))
        self.says(second, SERVER, ConnectionOpenOk())
        self.says(second, CLIENT, ChannelOpen())
        self.says(second, SERVER, ChannelOpenOk())

    def says(self, second: float, sender: Peer, *what: Method | Command | bytes) -> None:
        """One of both ends sends these."""
        self.entries.append(
            Entry(
                START_NS + round(second * 1e9),
                self.connection,
                sender,
                b"".join(map(_encoded, what)),
                Note(leg="client"),
            )
        )

    def publishes(self, second: float, exchange: str, key: str, body: bytes = b"12345") -> None:
        """One message, with a confirm after 2 ms."""
        if not self.number:
            self.says(second, CLIENT, ConfirmSelect())
            self.says(second, SERVER, ConfirmSelectOk())
        self.number += 1
        properties = Properties(message_id=f"{self.connection.number}-{self.number}")
        self.says(second, CLIENT, Command(1, BasicPublish(exchange=exchange, routing_key=key), properties, body=body))
        self.says(second + 0.002, SERVER, BasicAck(self.number))

    def consumes(self, second: float, queue: str) -> None:
        self.says(second, CLIENT, BasicQos(prefetch_count=10), BasicConsume(queue=queue, consumer_tag="c"))
        self.says(second, SERVER, BasicQosOk(), BasicConsumeOk("c"))

    def receives(self, second: float, exchange: str, key: str, message_id: str, tag: int) -> None:
        """One message, which is acknowledged after 1 ms."""
        deliver = BasicDeliver("c", tag, exchange=exchange, routing_key=key)
        self.says(second, SERVER, Command(1, deliver, Properties(message_id=message_id), body=b"12345"))
        self.says(second + 0.001, CLIENT, BasicAck(tag))

    def leaves(self, second: float) -> None:
        self.entries.append(
            Entry(START_NS + round(second * 1e9), self.connection, CLIENT, b"", NOTHING, Ended("client closed"))
        )


def _encoded(what: Method | Command | bytes) -> bytes:
    if isinstance(what, Command):
        return what.encode(131072)
    return what if isinstance(what, bytes) else encode_method(0 if what.class_id == 10 else 1, what)


def _clients() -> Iterator[Client]:
    shop, worker = Client(1, "shop", 0), Client(2, "worker", 1)
    worker.consumes(2, "jobs")
    seconds = [*range(10, 90 * 60, 10), *range(90 * 60, MINUTES * 60 - 30, 2)]  # it becomes five times as fast
    for tag, second in enumerate(seconds, 1):
        shop.publishes(second, "orders", "order.new")
        late = 0.02 if second < 90 * 60 else 0.2
        worker.receives(second + late, "orders", "order.new", f"1-{tag}", tag)
    yield shop
    yield worker
    legacy = Client(3, "legacy", 20)
    for second in range(30, 70 * 60, 30):
        legacy.publishes(second, "old", "x")
    legacy.leaves(70 * 60)
    yield legacy
    newcomer = Client(4, "newcomer", 100 * 60)
    for second in range(101 * 60, 119 * 60, 20):
        newcomer.publishes(second, "fresh", "y")
    newcomer.publishes(119 * 60 - 1, "fresh", "large", bytes(2_000_000))
    newcomer.says(119 * 60, CLIENT, QueueDeclare(queue="none", passive=True))
    newcomer.says(119 * 60 + 1, SERVER, ChannelClose(404, "NOT_FOUND - no queue 'none' in vhost '/'", 50, 10))
    newcomer.says(119 * 60 + 2, CLIENT, ChannelCloseOk())
    yield newcomer


def write_two_hours(path: Path) -> None:
    """Write the recording."""
    encoder = RecordingEncoder()
    pieces = [encoder.begin(0)]
    entries = [entry for client in _clients() for entry in client.entries]
    for entry in sorted(entries, key=lambda each: each.ts_ns):
        pieces += map(bytes, encoder.encode(entry))
    path.write_bytes(b"".join(pieces))
