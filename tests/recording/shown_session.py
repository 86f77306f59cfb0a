"""A session as taps show it, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import HEARTBEAT_FRAME, encode_method
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicDeliver,
    BasicPublish,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.amqp091.wire import Table
from amqproxy.recording.entry import Ended, Entry, Event, RecordedConnection
from amqproxy.taps.note import NOTHING, Note

NOW = 1_700_000_000_123_456_789
LEGS = ("client", "upstream")
START = encode_method(0, ConnectionStart(0, 9, Table(), b"PLAIN", b"en_US"))
START_OK = encode_method(
    0, ConnectionStartOk(Table({"connection_name": "orders"}), "PLAIN", b"\0guest\0secret", "en_US")
)
TUNE = encode_method(0, ConnectionTune(2047, 131_072, 60))
TUNE_OK = encode_method(0, ConnectionTuneOk(2047, 131_072, 60))
CONTENT = Command(1, BasicPublish(), Properties(content_type="text/plain"), b"content").encode(0)
CONTENT = CONTENT[len(encode_method(1, BasicPublish())) :]
CHANGED = Note(("r",), (), "changed")


def connection(number: int = 1, *, is_joined: bool = False, upstream: str | None = None) -> RecordedConnection:
    return RecordedConnection(
        number,
        f"10.0.0.1:{40_000 + number}-10.0.0.2:5673",
        is_tls=False,
        is_joined=is_joined,
        upstream_name=f"[fd00::1]:{50_000 + number}-[fd00::2]:5672" if upstream is None else upstream,
    )


def publish(key: str, size: int) -> bytes:
    return Command(1, BasicPublish(exchange="e", routing_key=key), body=b"x" * size).encode(131_072)


def deliver(tag: int, size: int) -> bytes:
    return Command(1, BasicDeliver("c", tag, False, "e", "k"), body=b"y" * size).encode(131_072)


class Session:
    """Entries of one session, a microsecond apart."""

    def __init__(self, of: RecordedConnection, start_ns: int = NOW) -> None:
        self.of = of
        self.ts_ns = start_ns

    def shown(self, sender: Peer, data: bytes = b"", note: Note = NOTHING, event: Event | None = None) -> Entry:
        self.ts_ns += 1000
        return Entry(self.ts_ns, self.of, sender, data, note, event)

    def opening(self) -> Iterator[Entry]:
        for leg in LEGS:
            yield self.shown(CLIENT, HEADER, Note(leg=leg))
        yield self.shown(SERVER, START)
        yield self.shown(CLIENT, START_OK)
        yield self.shown(SERVER, TUNE)
        yield self.shown(CLIENT, TUNE_OK)
        yield self.shown(CLIENT, encode_method(1, ChannelOpen()))
        yield self.shown(SERVER, encode_method(1, ChannelOpenOk()))

    def talk(self) -> Iterator[Entry]:
        for number in range(200):
            yield self.shown(CLIENT, publish(f"k.{number}", number * 7), Note(tags=("t",)) if number % 5 else NOTHING)
        yield self.shown(CLIENT, b"".join(publish("many", 900) for _ in range(200)))
        yield self.shown(SERVER, b"".join(deliver(tag, 100) for tag in range(1, 500)))
        yield self.shown(CLIENT, publish("large", 400_000))
        for leg in LEGS:
            yield self.shown(CLIENT, publish(leg, 3), CHANGED._replace(leg=leg))
        yield self.shown(CLIENT, HEARTBEAT_FRAME + encode_method(1, BasicAck(400, True)))

    def closing(self, reason: str) -> Iterator[Entry]:
        yield self.shown(CLIENT, encode_method(0, ConnectionClose(200, "bye", 0, 0)))
        yield self.shown(SERVER, encode_method(0, ConnectionCloseOk()))
        yield self.shown(CLIENT, event=Ended(reason))
