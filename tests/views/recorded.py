"""A recording of the proxy's in which rules have acted, as its recorder writes it."""

from __future__ import annotations

from collections.abc import Iterator

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import (
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    Method,
    QueueDeclare,
)
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.amqp091.wire import Table
from amqproxy.recording.entry import Ended, Entry, RecordedConnection
from amqproxy.recording.recording_encoder import RecordingEncoder
from amqproxy.taps.note import NOTHING, Note

CHANGED = Note(("eu-only",), (), "changed")
REFUSED = Note(("no-declares",), (), "refused", "client")


def recording(sessions: int = 1) -> bytes:
    """So many sessions, one after the other, each of which publishes and is refused a declare."""
    encoder = RecordingEncoder()
    pieces = [encoder.begin(0)]
    for number in range(1, sessions + 1):
        for entry in _entries(number):
            pieces += map(bytes, encoder.encode(entry))
    return b"".join(pieces)


def _entries(number: int) -> Iterator[Entry]:
    name, upstream = f"10.0.0.1:{4000 + number}-10.0.0.2:5672", f"10.0.0.2:{9000 + number}-10.0.0.3:5672"
    connection = RecordedConnection(number, name, is_tls=False, is_joined=False, upstream_name=upstream)
    ts_ns = 1_700_000_000_000_000_000 + number * 1_000_000_000

    def shown(sender: Peer, what: Method | bytes, note: Note = NOTHING) -> Entry:
        nonlocal ts_ns
        ts_ns += 1_000_000
        data = what if isinstance(what, bytes) else encode_method(0 if what.class_id == 10 else 1, what)
        return Entry(ts_ns, connection, sender, data, note)

    yield shown(CLIENT, HEADER, Note(leg="client"))
    yield shown(CLIENT, HEADER, Note(leg="upstream"))
    yield shown(SERVER, ConnectionStart(0, 9, Table(), b"PLAIN", b"en_US"))
    properties = Table({"connection_name": f"orders-{number}"})
    yield shown(CLIENT, ConnectionStartOk(properties, "PLAIN", b"\0guest\0secret", "en_US"))
    yield shown(CLIENT, ChannelOpen())
    yield shown(SERVER, ChannelOpenOk())
    for leg, exchange in (("client", "orders"), ("upstream", "eu.orders")):
        publish = Command(1, BasicPublish(exchange=exchange), body=b"12345").encode(4096)
        yield shown(CLIENT, publish, CHANGED._replace(leg=leg))
    yield shown(CLIENT, QueueDeclare(queue="q"), REFUSED)
    yield shown(SERVER, ChannelClose(403, "ACCESS_REFUSED", 50, 10), REFUSED)
    yield shown(CLIENT, ChannelCloseOk(), Note(leg="client"))
    yield Entry(ts_ns + 1, connection, CLIENT, b"", NOTHING, Ended("client closed"))
