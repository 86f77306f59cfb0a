"""A client's TLS session with the integrated broker, as a capture and a key log: recorded on the way, byte for byte."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pika
import trustme

from amqproxy.testing.local_broker import LocalBroker
from tests.capture import building
from tests.capture.building import ACK, FIN, PSH, SYN

HOST = "127.0.0.1"
DEADLINE = 30

Sent = tuple[int, bool, bytes]
"""When, whether by the client, and what: nothing for the end."""


class TLSSession(NamedTuple):
    """What passed, encrypted, and the secrets of it."""

    sent: list[Sent]
    keylog: str

    def packets(self, port: int = 5671) -> list[building.Timed]:
        return over_tcp(self.sent, port)


def over_tcp(sent: list[Sent], port: int) -> list[building.Timed]:
    """Ethernet packets of one connection, from its handshake to its end, each later than the one before, as a kernel
    stamps them: what is sent in many segments may still be under way when the other side answers."""
    seqs = {True: 1000, False: 5000}
    packets: list[building.Timed] = []
    clock = sent[0][0] - 3

    def add(ts_ns: int, is_client: bool, flags: int, payload: bytes = b"") -> None:
        nonlocal clock
        clock = max(clock + 1, ts_ns)
        source, target = (45678, port) if is_client else (port, 45678)
        ends = (building.CLIENT, building.SERVER) if is_client else (building.SERVER, building.CLIENT)
        ack = seqs[not is_client] if flags & ACK else 0
        segment = building.tcp(payload, source=source, target=target, seq=seqs[is_client], ack=ack, flags=flags)
        packets.append((clock, building.ethernet(building.ipv4(segment, source=ends[0], target=ends[1]))))
        seqs[is_client] += len(payload) + (flags & (SYN | FIN) > 0)

    for is_client, flags in ((True, SYN), (False, SYN | ACK), (True, ACK)):
        add(clock, is_client, flags)
    for ts_ns, is_client, data in sent:
        for at in range(0, len(data), 1448):
            add(ts_ns + at, is_client, ACK | PSH, data[at : at + 1448])
        if not data:
            add(ts_ns, is_client, ACK | FIN)
    add(clock, True, ACK)
    return packets


def recorded_session(
    directory: Path, version: ssl.TLSVersion, client: Callable[[pika.BlockingConnection], None]
) -> TLSSession:
    """What a pika client does with the broker, over TLS of a version."""
    keylog = directory / "keylog"
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(server)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    context.minimum_version = context.maximum_version = version
    context.keylog_filename = str(keylog)
    sent: list[Sent] = []
    with LocalBroker() as broker, _terminator(server, broker.port) as secure, _recorder(secure, sent) as port:
        options = pika.SSLOptions(context, HOST)
        connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, port, ssl_options=options))
        client(connection)
        connection.close()
    return TLSSession(sent, keylog.read_text())


@contextmanager
def _terminator(context: ssl.SSLContext, port: int) -> Iterator[int]:
    """Take TLS, and pass what it holds to a port."""

    def serve(accepted: socket.socket) -> None:
        with context.wrap_socket(accepted, server_side=True) as client, _connected(port) as upstream:
            _pump_both(client, upstream)

    with _listening(serve) as own:
        yield own


@contextmanager
def _recorder(port: int, sent: list[Sent]) -> Iterator[int]:
    """Pass bytes to a port, and keep them."""

    def serve(accepted: socket.socket) -> None:
        lock = threading.Lock()

        def note(is_client: bool, data: bytes) -> None:
            with lock:
                sent.append((time.time_ns(), is_client, data))

        with accepted, _connected(port) as upstream:
            _pump_both(accepted, upstream, note)

    with _listening(serve) as own:
        yield own


def _connected(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), timeout=DEADLINE)


@contextmanager
def _listening(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    with socket.create_server((HOST, 0)) as listener:
        listener.settimeout(DEADLINE)

        def run() -> None:
            accepted, _ = listener.accept()
            accepted.settimeout(DEADLINE)
            serve(accepted)

        thread = threading.Thread(target=run)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(DEADLINE)


def _pump_both(
    client: socket.socket, upstream: socket.socket, note: Callable[[bool, bytes], None] = lambda is_client, data: None
) -> None:
    def pump(source: socket.socket, target: socket.socket, is_client: bool) -> None:
        while True:
            try:
                data = source.recv(65536)
            except OSError:
                data = b""
            note(is_client, data)
            if not data:
                break
            target.sendall(data)
        try:
            target.shutdown(socket.SHUT_RDWR if isinstance(target, ssl.SSLSocket) else socket.SHUT_WR)
        except OSError:
            return

    back = threading.Thread(target=pump, args=(upstream, client, False))
    back.start()
    pump(client, upstream, True)
    back.join(DEADLINE)
