"""What relaying AMQP 0-10 costs with a pump, beside HAProxy in TCP mode with one thread, and without one.

As `pump` measures it for 0-9-1: bulk, and round trips at a fixed rate over one connection and over many. Each message
is one small message.transfer, answered by a session.completed.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.controls import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    SessionAttach,
    SessionAttached,
    SessionCommandPoint,
    SessionCompleted,
)
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Array, Map
from bench import load, peers, talk
from bench.latency import added
from bench.peers import Proxy, placements
from bench.pump import (
    AS_HAPROXY,
    HAPROXY,
    HAPROXY_TWO,
    LESS,
    NO_MORE,
    RATE,
    TWO,
    Exchange,
    contenders_with_pumps,
    paced_rounds,
)
from bench.relay import MEGABYTE
from bench.report import Row, in_turns, progress

SECTION = "One pump, AMQP 0-10"
CONNECTIONS = (1, 10, 100)
CHANNEL = 1
FRAME_MAX = 65_535
SIZES = {"transfer 100 B": 100, "transfer 1 KiB": 1024}
ANSWERS = 5000
"""More than one connection has messages in a round."""

UTF_8 = Array("str16", ["en_US"])


def _control(method: Method, channel: int = 0) -> bytes:
    return encode_method(channel, method)


FAREWELL = load.Farewell(_control(ConnectionClose(200, "done")), _control(ConnectionCloseOk()))
POINT = _control(SessionCommandPoint(0, 0), CHANNEL)
STEPS = (
    (HEADER, HEADER + _control(ConnectionStart(Map(), Array("str16", ["PLAIN"]), UTF_8))),
    (
        _control(ConnectionStartOk(Map(), "PLAIN", b"\0guest\0guest", "en_US")),
        _control(ConnectionTune(256, FRAME_MAX, 0, 120)),
    ),
    (
        _control(ConnectionTuneOk(256, FRAME_MAX, 0)) + _control(ConnectionOpen("test")),
        _control(ConnectionOpenOk(Array("str16"))),
    ),
    (_control(SessionAttach(b"bench"), CHANNEL) + POINT, _control(SessionAttached(b"bench"), CHANNEL) + POINT),
)
"""What the client sends in the handshake, and what the broker answers to each."""


def transfer(size: int) -> bytes:
    """The frames of one message with a body of so many bytes."""
    header = Header(
        (
            DeliveryProperties(routing_key="bench", delivery_mode=1),
            MessageProperties(content_length=size, content_type="application/octet-stream"),
        )
    )
    return Assembly(CHANNEL, MessageTransfer("", 0, 0), header, bytes(size)).encode(FRAME_MAX)


def _connect(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), talk.DEADLINE)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for sent, answered in STEPS:
        sock.sendall(sent)
        talk.read_exactly(sock, len(answered))
    return sock


def _accept(sock: socket.socket) -> None:
    sock.settimeout(talk.DEADLINE)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for expected, answered in STEPS:
        received = talk.read_exactly(sock, len(expected))
        if received != expected:
            raise ValueError(f"the client's {expected!r} arrived as {received!r}")
        sock.sendall(answered)


COMPLETED = Exchange(
    transfer(100),
    [_control(SessionCompleted(SequenceSet([(0, number)])), CHANNEL) for number in range(ANSWERS)],
    _connect,
    _accept,
)


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Rows for bulk, for round trips, and for the CPU time of one."""
    with ExitStack() as stack:
        listening = stack.enter_context(peers.listener())
        proxies, missing = contenders_with_pumps(stack, listening.getsockname()[1])
        yield from missing
        proxies = [each for each in proxies if each.name not in (HAPROXY_TWO, TWO)]
        for name, size in SIZES.items():
            progress(f"pump-0-10: bulk, {name}")
            jobs = {proxy.name: partial(_throughput, listening, proxy, size, int(400e6 * scale)) for proxy in proxies}
            for job in jobs.values():
                job()
            yield Row(SECTION, name, "MB/s", in_turns(jobs, rounds), (HAPROXY,), AS_HAPROXY)
        for placement in placements():
            placement.put(proxies)
            for count in CONNECTIONS:
                progress(f"pump-0-10: {RATE:,} a second on {count:,} connections {placement.name}")
                seconds = max(1.0, 2 * scale)
                trips, costs = paced_rounds(listening, proxies, placement, count, min(rounds, 5), seconds, COMPLETED)
                name = f"{RATE:,}/s on {count:,} {placement.name}"
                yield Row(SECTION, f"{name}, added", "µs", added(trips), (HAPROXY,), LESS, less_is_better=True)
                yield Row(SECTION, f"{name}, CPU a message", "µs", costs, (HAPROXY,), NO_MORE, less_is_better=True)
        placements()[0].put(proxies)


def _throughput(listening: socket.socket, proxy: Proxy, size: int, volume: int) -> float:
    """Megabytes a second through a proxy."""
    data = load.fill(transfer(size))
    times = max(1, volume // len(data))

    def broker() -> list[float]:
        sock, _ = listening.accept()
        _accept(sock)
        return load.sink([sock], times * len(data), FAREWELL)

    def client() -> list[float]:
        return load.flood([_connect(proxy.port)], data, times, FAREWELL)

    (at_broker,), (at_client,) = load.side_by_side(broker, client)
    return times * len(data) / abs(at_broker - at_client) / MEGABYTE
