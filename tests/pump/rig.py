"""An AMQP 0-9-1 connection whose two peers are sockets of the test, and a pump between them."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable
from threading import Thread
from typing import Any

from amqproxy.amqp091.frame_reader import MAX_HEADER, FrameReader
from amqproxy.amqp091.tally import Tally
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.proxy.amqp091.stateful import STATEFUL
from amqproxy.proxy.dialects import KEPT
from amqproxy.pump.amqp091.frame_scanner import Amqp091FrameScanner
from amqproxy.pump.amqp091.pumped_connection import Amqp091PumpedConnection
from amqproxy.pump.dialects import pump_dialects
from amqproxy.pump.frame_scanner import FrameScanner
from amqproxy.pump.pump import Pump
from amqproxy.pump.pumped_connection import PumpedConnection
from amqproxy.pump.pumps import Pumps
from amqproxy.pump.relay_loop import SCRATCH
from amqproxy.pump.tallies import Tallies
from amqproxy.sockets.tls_socket import TlsSocket
from amqproxy.taps.metering.amqp091.message_run import RUN
from amqproxy.taps.metrics import Metrics
from tests.sockets.tls_pair import tls_pair

DEADLINE = 20.0
BOUNDS = (10e-6, 1e-3, 1.0)
KEEPS = STATEFUL[CLIENT], STATEFUL[SERVER]

PUBLISH = "1: basic.publish, 1: header 5, 1: body 5"
DELIVER = "1: basic.deliver, 1: header 5, 1: body 5"


def reader(peer: object, *channels: int, frame_max: int = 131_072, tally: Tally | None = None) -> FrameReader:
    """A reader of an open connection, with these channels."""
    found = FrameReader(tally, frame_max=frame_max, header_max=MAX_HEADER if peer is SERVER else 0)
    found.want(STATEFUL[peer], content=False)  # type: ignore[index]
    for number in channels:
        found.open_content_state(number)
    return found


def pump(
    bounds: tuple[float, ...] = BOUNDS,
    tallies: Tallies | None = None,
    scanners: dict[type[PumpedConnection], FrameScanner] | None = None,
    **options: object,
) -> Pump:
    """Return a pump that its owner turns, unless `is_threaded`; by default, it relays AMQP 0-9-1."""
    if scanners is None:
        scanners = {Amqp091PumpedConnection: Amqp091FrameScanner(KEEPS, SCRATCH, tallies)}
    return Pump(scanners, bounds, **{"is_threaded": False, **options})  # type: ignore[arg-type]


def new_pumps(threads: int, metrics: Metrics | None = None, **options: Any) -> Pumps:
    """Return pumps that give connections back where the proxy's do."""
    metrics = metrics or Metrics()
    return Pumps(threads, pump_dialects(metrics, KEPT), metrics, **options)


class Wire:
    """A connection: `client` and `server` are its peers' sockets, `sockets` those of the proxy."""

    def __init__(
        self,
        pump: Pump,
        channels: tuple[int, ...] = (1, 2),
        note: Callable[[bool, memoryview, float, bool], object] | None = None,
        tcp: bool = False,
        frame_max: int = 131_072,
        buffer: int = 0,
        tls: tuple[bool, bool] = (False, False),
    ) -> None:
        self.pump = pump
        self.note = note
        pairs = [tls_pair(connected(tcp))[::-1] if each else connected(tcp) for each in tls]
        (self.client, ours), (self.server, theirs) = pairs
        self.sockets = ours, theirs
        if buffer:
            for each in (*pairs[0], *pairs[1]):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
                each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.readers = reader(CLIENT, *channels, frame_max=frame_max), reader(SERVER, *channels, frame_max=frame_max)
        self.returned = 0
        self.lease: PumpedConnection | None = None
        self.seen = bytearray(), bytearray()

    def hand_over(self) -> PumpedConnection:
        return self.hand_over_to(self.pump)

    def hand_over_to(self, taker: Pump | Pumps) -> PumpedConnection:
        self.lease = self.lease_of((self.sockets[0].fileno(), self.sockets[1].fileno()))
        self.pump = taker.take(self.lease) or self.pump
        return self.lease

    def lease_of(self, descriptors: tuple[int, int]) -> PumpedConnection:
        found = Amqp091PumpedConnection(self.readers, descriptors, self._return, self.note)
        for place, sock in enumerate(self.sockets):
            if isinstance(sock, TlsSocket):
                found.use_tls(place, sock)
        return found

    def _return(self) -> None:
        assert self.lease is not None
        assert not self.lease.is_pumped
        self.returned += 1

    def settle(self) -> None:
        """Turn the pump until nothing is left to be done, and look at what both peers have got."""
        settle(self.pump)
        self.look()

    def look(self) -> None:
        for place, sock in enumerate((self.client, self.server)):
            while True:
                try:
                    data = sock.recv(1 << 20)
                except (BlockingIOError, ConnectionResetError):
                    break
                if not data:
                    break
                self.seen[place].extend(data)

    def close(self) -> None:
        if self.lease is not None:
            self.pump.recall(self.lease)
            self.lease = None  # it refers to us: the pump's descriptors would stay open until a garbage collection
        for each in (self.client, self.server, *self.sockets):
            each.close()


def is_readable(descriptor: int, timeout: float = 0) -> bool:
    """Return whether a descriptor, of any number, can be read within so many seconds."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(timeout * 1000))


def settle(pump: Pump) -> None:
    """Turn a pump until nothing is left to be done."""
    while pump.has_unfinished or is_readable(pump.descriptor):
        pump.turn()
    pump.receive_returned()
    pump.read_journal()


def until(condition: Callable[[], object], pump: Pump) -> None:
    """Serve a pump in a thread until a condition holds."""
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, "it never came"
        is_readable(pump.returns_descriptor, 0.005)
        pump.receive_returned()
        pump.read_journal()


def run_of_publishes(count: int, size: int) -> bytes:
    """What a journal has of so many on channel 1."""
    return struct.pack(">BHIQQB", RUN, 1, 16, count, size, 0xCE)


class Running:
    """A pump in a thread of its own, for the while of a block."""

    def __init__(self, **options: object) -> None:
        self.pump = pump(is_threaded=True, **options)
        self._thread = Thread(target=self.pump.run, daemon=True)

    def __enter__(self) -> Pump:
        self._thread.start()
        return self.pump

    def __exit__(self, *exception: object) -> None:
        self.pump.recall_all()
        self.pump.stop()
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()


def reset(sock: socket.socket) -> None:
    """Tear a TCP connection down."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def connected(tcp: bool) -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection, non-blocking."""
    if tcp:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            ends = (socket.create_connection(listener.getsockname()), listener.accept()[0])
    else:
        ends = socket.socketpair()
    for end in ends:
        end.setblocking(False)
    return ends


def journaled(is_server: bool, data: bytes) -> list[bytes]:
    """What a pump's journal has of frames that one peer sends."""
    found: list[bytes] = []
    wire = Wire(pump(), note=lambda is_server, data, now, is_cut: found.append(bytes(data)))
    wire.hand_over()
    peer = wire.server if is_server else wire.client
    while data:
        data = data[peer.send(data[:50_000]) :]
        wire.settle()
    wire.close()
    return found
