"""The cost of relaying AMQP 0-10 with a pump, beside HAProxy in TCP mode with one thread, and without a pump.

As in `pump` for 0-9-1: bulk, and round trips at a fixed rate over one connection and over many. Each message is one
small message.transfer, answered by a session.completed.
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
    SessionCompleted,
)
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties
from amqproxy.amqp010.sequence import SequenceSet
from bench import load, peers, talk_0_10
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
SIZES = {"transfer 100 B": 100, "transfer 1 KiB": 1024}
ANSWERS = 5000
"""Prepared answers, more than any connection has messages in a round."""


def _control(method: Method, channel: int = 0) -> bytes:
    return encode_method(channel, method)


FAREWELL = load.Farewell(_control(ConnectionClose(200, "done")), _control(ConnectionCloseOk()))


def transfer(size: int) -> bytes:
    """Return the frames of one message with a body of `size` bytes."""
    header = Header(
        (
            DeliveryProperties(routing_key="bench", delivery_mode=1),
            MessageProperties(content_length=size, content_type="application/octet-stream"),
        )
    )
    return Assembly(talk_0_10.CHANNEL, MessageTransfer("", 0, 0), header, bytes(size)).encode(talk_0_10.FRAME_MAX)


COMPLETED = Exchange(
    transfer(100),
    [_control(SessionCompleted(SequenceSet([(0, number)])), talk_0_10.CHANNEL) for number in range(ANSWERS)],
    talk_0_10.connect,
    talk_0_10.accept,
)


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield rows for bulk, for round trips, and for the CPU time of one."""
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
    """Return megabytes per second through a proxy."""
    data = load.fill(transfer(size))
    times = max(1, volume // len(data))

    def broker() -> list[float]:
        sock, _ = listening.accept()
        talk_0_10.accept(sock)
        return load.sink([sock], times * len(data), FAREWELL)

    def client() -> list[float]:
        return load.flood([talk_0_10.connect(proxy.port)], data, times, FAREWELL)

    (at_broker,), (at_client,) = load.side_by_side(broker, client)
    return times * len(data) / abs(at_broker - at_client) / MEGABYTE
