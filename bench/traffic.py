"""Messages through a broker: publishers that write pre-built bytes, and consumers that count received bytes.

All copies of a flow have the same size, so the number of messages follows from that of bytes, without decoding.
"""

from __future__ import annotations

import math
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from multiprocessing import get_context
from typing import NamedTuple

from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicQos,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
)
from bench import load, talk
from bench.peers import Proxy

CONFIRM = struct.Struct(">BHIHHQBB")
"""The encoded frame of a basic.ack."""

ACK_INDEX = 80
AT_ONCE = 256 * 1024
"""Approximate bytes of one send."""

RECEIVE = 256 * 1024


class Flow(NamedTuple):
    """Traffic of one measurement: published messages, and their consumers.

    Keys are published in turn, each to the queue it names, or to `exchange` of a type, whose `bindings` are pairs of a
    queue and a pattern. Without `keys` they are the queues' names. `copies` is the number of queues that get each
    message. Consumers acknowledge every `ack_every` messages, or with 0 none. `window` is the limit on unconfirmed
    messages; with 0 there are no confirms. `connections` is the number of publishing connections, and of consuming
    ones. With `consumes` off, all published messages wait, and are purged.
    """

    name: str
    size: int
    messages: int
    queues: tuple[str, ...] = ("bench-000",)
    exchange: str = ""
    exchange_type: str = ""
    keys: tuple[str, ...] = ()
    bindings: tuple[tuple[str, str], ...] = ()
    copies: int = 1
    ack_every: int = 0
    prefetch: int = 1000
    is_durable: bool = False
    window: int = 0
    connections: int = 1
    consumes: bool = True


def names(count: int) -> tuple[str, ...]:
    """Return the names of `count` queues."""
    return tuple(f"bench-{number:03}" for number in range(count))


@contextmanager
def topology(broker: Proxy, flow: Flow) -> Iterator[None]:
    """Create a flow's queues and bindings for the block; `ValueError` if messages are left in the queues at its end."""
    sock = talk.connect(broker.port)
    wanted: list[Method] = [QueueDeclare(queue=queue, durable=flow.is_durable) for queue in flow.queues]
    if flow.exchange:
        wanted.append(ExchangeDeclare(exchange=flow.exchange, type=flow.exchange_type, auto_delete=True))
        wanted += [QueueBind(queue=queue, exchange=flow.exchange, routing_key=key) for queue, key in flow.bindings]
    talk.ask(sock, wanted)
    try:
        yield
    finally:
        left = [int.from_bytes(each[4:8]) for each in talk.ask(sock, [QueueDelete(queue=each) for each in flow.queues])]
        sock.close()
    if any(left):
        raise ValueError(f"{flow.name}: {left} messages were left at {broker.name}")


def rate(broker: Proxy, flow: Flow) -> float:
    """Return thousands of copies per second, from the first publish to the last consumption and the last confirm."""
    is_ready = get_context("fork").Event()
    publisher = partial(_publish_all, broker, flow, is_ready.wait)
    if flow.consumes:
        (ended,), (began, confirmed) = load.side_by_side(partial(_consume_all, broker, flow, is_ready.set), publisher)
    else:
        is_ready.set()
        ((began, confirmed),) = load.side_by_side(publisher)
        ended = confirmed
        with talk.connect(broker.port) as sock:
            talk.ask(sock, [QueuePurge(queue=queue) for queue in flow.queues])
    return flow.messages * flow.copies / (max(ended, confirmed) - began) / 1000


# --- publishing


def _publish_all(broker: Proxy, flow: Flow, wait: Callable[[float], bool]) -> list[float]:
    """Return when the first message was published, and when the last was confirmed or, without confirms, written."""
    parts = chunks(flow)
    share = flow.messages // flow.connections
    socks = [talk.connect(broker.port) for _ in range(flow.connections)]
    if flow.window:
        for sock in socks:
            talk.select_confirms(sock)
    if not wait(talk.DEADLINE):
        raise ValueError("the consumer never came")
    began = time.monotonic()
    ended = load.each(lambda sock: publish(sock, parts, share, flow.window), socks)
    return [began, max(ended)]


def chunks(flow: Flow) -> list[tuple[bytes, int]]:
    """Return chunks of bytes to send at once, with their numbers of messages; repeated, they form the flow."""
    keys = flow.keys or flow.queues
    properties = talk.PERSISTENT if flow.is_durable else talk.PROPERTIES
    make = partial(talk.publish, bytes(flow.size), exchange=flow.exchange, properties=properties)
    messages = [make(routing_key=key) for key in keys]
    at_once = max(1, AT_ONCE // len(messages[0]))
    if flow.window:
        at_once = max(1, min(at_once, flow.window // 10))
    round_ = math.lcm(len(messages), at_once) if len(messages) <= at_once else len(messages)
    return [(b"".join(some), len(some)) for some in talk.batched(islice(cycle(messages), round_), at_once)]


def publish(sock: socket.socket, parts: list[tuple[bytes, int]], total: int, window: int) -> float:
    """Publish `total` messages, at most `window` of them unconfirmed, and close; return when the last was confirmed."""
    sent = 0
    confirms = _Confirms()
    for data, count in cycle(parts):
        if sent + count > total:
            each = len(data) // count
            data, count = data[: each * (total - sent)], total - sent
        while window and sent + count - confirms.count > window:
            confirms.feed(sock.recv(RECEIVE))
        sock.sendall(data)
        sent += count
        if sent == total:
            break
    while window and confirms.count < total:
        confirms.feed(sock.recv(RECEIVE))
    ended = time.monotonic()
    sock.sendall(talk.CLOSE)
    talk.read_exactly(sock, len(talk.CLOSE_OK))
    sock.close()
    return ended


class _Confirms:
    """Count of confirmed publishes; RabbitMQ does not confirm them in order."""

    def __init__(self) -> None:
        self._low = 0
        self._ahead: set[int] = set()
        self._rest = b""

    @property
    def count(self) -> int:
        return self._low + len(self._ahead)

    def feed(self, data: bytes) -> None:
        data = self._rest + data
        whole = len(data) // CONFIRM.size * CONFIRM.size
        if not data:
            raise ValueError("the broker hung up")
        self._rest = data[whole:]
        ahead = self._ahead
        for _, _, _, _, method, tag, multiple, _ in CONFIRM.iter_unpack(data[:whole]):
            if method != ACK_INDEX:
                raise ValueError(f"not a confirm: {data!r}")
            if multiple:
                self._low = max(tag, self._low)
                ahead = self._ahead = {each for each in ahead if each > tag}
            else:
                ahead.add(tag)
        while self._low + 1 in ahead:
            self._low += 1
            ahead.remove(self._low)


# --- consuming


def _consume_all(broker: Proxy, flow: Flow, ready: Callable[[], None]) -> list[float]:
    """Consume all copies, and return when the last arrived."""
    key = (flow.keys or flow.queues)[0]
    size = len(talk.delivery(bytes(flow.size), exchange=flow.exchange, routing_key=key))
    consumers = []
    for number in range(flow.connections):
        sock = talk.connect(broker.port)
        queues = flow.queues[number :: flow.connections]
        qos = [BasicQos(prefetch_count=flow.prefetch)] if flow.ack_every else []
        wanted = [BasicConsume(queue=queue, consumer_tag=queue[-5:], no_ack=not flow.ack_every) for queue in queues]
        talk.ask(sock, [*qos, *wanted])
        consumers.append(_Consumer(sock, size, flow.ack_every))
    ready()
    left = flow.messages * flow.copies
    poll = select.poll()
    by_descriptor = {consumer.sock.fileno(): consumer for consumer in consumers}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.POLLIN)
    while left > 0:
        events = poll.poll(talk.DEADLINE * 1000)
        if not events:
            raise ValueError(f"{left} messages never came")
        for descriptor, _ in events:
            left -= by_descriptor[descriptor].receive()
    ended = time.monotonic()
    if left:
        raise ValueError(f"{-left} more messages came than were sent")
    for consumer in consumers:
        consumer.close()
    return [ended]


class _Consumer:
    """One connection, which acknowledges its deliveries."""

    def __init__(self, sock: socket.socket, size: int, ack_every: int) -> None:
        self.sock = sock
        self._size = size
        self._ack_every = ack_every
        self._received = 0
        self._messages = 0
        self._acked = 0
        self._buffer = memoryview(bytearray(RECEIVE))

    def receive(self) -> int:
        """Receive bytes, and return the number of messages that they complete."""
        got = self.sock.recv_into(self._buffer)
        if not got:
            raise ValueError("the broker hung up")
        self._received += got
        before, self._messages = self._messages, self._received // self._size
        if self._received == self._messages * self._size and self._buffer[got - 1] != talk.FRAME_END:
            raise ValueError("what came were not these messages")
        self._ack()
        return self._messages - before

    def _ack(self) -> None:
        every = self._ack_every
        if every == 1 and self._messages > self._acked:
            tags = range(self._acked + 1, self._messages + 1)
            self.sock.sendall(b"".join([CONFIRM.pack(1, 1, 13, 60, ACK_INDEX, tag, 0, talk.FRAME_END) for tag in tags]))
            self._acked = self._messages
        elif every > 1 and self._messages - self._acked >= every:
            self._acked = self._messages - self._messages % every
            self.sock.sendall(talk.ack(self._acked, multiple=True))

    def close(self) -> None:
        if self._ack_every > 1 and self._messages > self._acked:
            self.sock.sendall(talk.ack(self._messages, multiple=True))
        self.sock.sendall(talk.CLOSE)
        talk.read_exactly(self.sock, len(talk.CLOSE_OK))
        self.sock.close()
