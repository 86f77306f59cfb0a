"""A TCP relay that records every byte, placed on both sides of the proxy."""

import contextlib
import socket
import struct
import threading
import time
from collections import Counter
from typing import NamedTuple, Self

from tests.real.poll import until

CHUNK = 262144


class Read(NamedTuple):
    """`size` bytes that were read at a time; none where that direction ended, by a reset or in good order."""

    ts_ns: int
    is_from_client: bool
    size: int
    is_reset: bool = False


class Recorded:
    """One connection through a recorder: what the client sent, what the server sent, and when.

    `ports` are those of both ends of the connection that the recorder made to the server, its own first.
    """

    def __init__(self, ports: tuple[int, int] = (0, 0)) -> None:
        self.to_server, self.to_client = bytearray(), bytearray()
        self.ports = ports
        self.reads: list[Read] = []
        self.directions = 2
        """How many of the two still flow."""

    def add(self, record: bytearray, chunk: bytes) -> None:
        """Take what was read of one direction, before it is sent on."""
        record += chunk
        self.reads.append(Read(time.time_ns(), record is self.to_server, len(chunk)))

    def end(self, record: bytearray, *, is_reset: bool) -> None:
        """Take that a direction has ended."""
        self.reads.append(Read(time.time_ns(), record is self.to_server, 0, is_reset))

    @property
    def streams(self) -> tuple[bytes, bytes]:
        return bytes(self.to_server), bytes(self.to_client)


class Recorder:
    """Relays each connection to a loopback port; half-closes and resets pass through as they are."""

    def __init__(self, upstream_port: int) -> None:
        self.upstream_port = upstream_port
        self.connections: list[Recorded] = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self.listener.getsockname()[1]
        self.sockets: set[socket.socket] = set()
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends every connection and thread."""
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.threads[0].join()
        self.listener.close()
        with self.lock:
            for each in self.sockets:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        for thread in self.threads[1:]:
            thread.join()

    def take(self) -> list[Recorded]:
        """The connections since the last call, once each of them has ended."""
        until(lambda: not any(each.directions for each in self.connections), "the recorded connections to end")
        taken, self.connections = self.connections, []
        self.threads = [each for each in self.threads if each.is_alive()]
        return taken

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.upstream_port))
            except OSError:
                client.close()
                continue
            recorded = Recorded((server.getsockname()[1], self.upstream_port))
            with self.lock:
                self.sockets |= {client, server}
                self.connections.append(recorded)
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for source, target, record in (
                (client, server, recorded.to_server),
                (server, client, recorded.to_client),
            ):
                pump = threading.Thread(target=self._pump, args=(recorded, source, target, record), daemon=True)
                self.threads.append(pump)
                pump.start()

    def _pump(self, recorded: Recorded, source: socket.socket, target: socket.socket, record: bytearray) -> None:
        try:
            while chunk := source.recv(CHUNK):
                recorded.add(record, chunk)
                target.sendall(chunk)
            recorded.end(record, is_reset=False)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            recorded.end(record, is_reset=True)
            # Closing will send RST if no FIN has gone before: only the reading half is shut, to wake the other pump.
            for each in (source, target):
                with contextlib.suppress(OSError):
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    each.shutdown(socket.SHUT_RD)
        with self.lock:
            recorded.directions -= 1
            if not recorded.directions:
                self.sockets -= {source, target}
                source.close()
                target.close()


def assert_identical(outside: list[Recorded], inside: list[Recorded]) -> None:
    """Each connection on one side of the proxy has an equal one, in both directions, on the other."""
    missing = Counter(each.streams for each in outside)
    missing.subtract(Counter(each.streams for each in inside))
    unmatched = +missing, -missing
    if not any(unmatched):
        return
    lines = [f"{len(outside)} connections outside, {len(inside)} inside the proxy"]
    for one, other in zip(*(side.elements() for side in unmatched), strict=False):
        for direction, sent, received in (
            ("client to server", one[0], other[0]),
            ("server to client", other[1], one[1]),
        ):
            lines.append(f"{direction}: {difference(sent, received)}")
    raise AssertionError("\n".join(lines))


def difference(sent: bytes, received: bytes) -> str:
    """Where two streams part, in words."""
    if sent == received:
        return f"identical, {len(sent)} bytes"
    at = next(
        (i for i, (a, b) in enumerate(zip(sent, received, strict=False)) if a != b), min(len(sent), len(received))
    )
    return (
        f"{len(sent)} bytes sent, {len(received)} received, the first difference at {at}: "
        f"{sent[at : at + 32].hex(' ')} became {received[at : at + 32].hex(' ')}"
    )
