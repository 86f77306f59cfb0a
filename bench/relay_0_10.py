"""The cost of a 0-10 message in the relay without a pump and without rules, beside that of a 0-9-1 message."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

from bench import deliveries, load, talk, talk_0_10
from bench.peers import Proxy, amqproxy, listener
from bench.pump import cpu_seconds
from bench.report import SUBJECT, Goal, Row, in_turns, progress

MICROSECOND = 1e-6
GOAL = Goal(3.0, is_most=True)


class Flow(NamedTuple):
    """Messages of one protocol, the handshake before them, and which side sends them.

    `tag_at` is the offset of the delivery tag in a message, 0 if it has none.
    """

    name: str
    message: bytes
    steps: tuple[tuple[bytes, bytes], ...]
    is_delivery: bool = False
    tag_at: int = 0


PUBLISHES = (
    Flow("0-9-1", talk.publish(bytes(100)), talk.ANSWERS),
    Flow(SUBJECT, talk_0_10.transfer("bench", 100, accepts=False), talk_0_10.STEPS),
)
DELIVERIES = (
    Flow("0-9-1", talk.delivery(bytes(100)), talk.ANSWERS, is_delivery=True, tag_at=deliveries.DELIVERY_TAG_AT),
    Flow(SUBJECT, talk_0_10.transfer("bench", 100, accepts=False), talk_0_10.STEPS, is_delivery=True),
)


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield a row for each direction: CPU microseconds per message, less being better."""
    with ExitStack() as stack:
        listening = stack.enter_context(listener())
        config = Path(stack.enter_context(tempfile.TemporaryDirectory()), "config.toml")
        config.write_text("threads = 0\n")
        proxy = stack.enter_context(amqproxy(listening.getsockname()[1], config))
        for name, flows in (("publish", PUBLISHES), ("deliver", DELIVERIES)):
            progress(f"relay of AMQP 0-10 without a pump: {name} 100 B")
            messages = int(2_000_000 * scale)
            jobs = {flow.name: partial(cost, listening, proxy, flow, messages) for flow in flows}
            figures = in_turns(jobs, rounds)
            yield Row(
                "Relay without a pump, AMQP 0-10 beside 0-9-1",
                f"{name} 100 B, CPU a message",
                "µs",
                figures,
                ("0-9-1",),
                GOAL,
                less_is_better=True,
            )


def cost(listening: socket.socket, proxy: Proxy, flow: Flow, messages: int) -> float:
    """Return the proxy's CPU microseconds per message, for about `messages` messages."""
    blocks = max(1, messages // deliveries.BLOCK)
    count = deliveries.count(blocks)
    size = count * len(flow.message)

    def broker() -> list[float]:
        sock, _ = listening.accept()
        with closing(sock):
            sock.settimeout(talk.DEADLINE)
            for expected, answered in flow.steps:
                talk.read_exactly(sock, len(expected))
                sock.sendall(answered)
            return _move(sock, size, _blocks(flow, blocks) if flow.is_delivery else None)

    def client() -> list[float]:
        assert proxy.pid is not None
        with closing(socket.create_connection(("127.0.0.1", proxy.port), talk.DEADLINE)) as sock:
            for sent, answered in flow.steps:
                sock.sendall(sent)
                talk.read_exactly(sock, len(answered))
            before = cpu_seconds(proxy.pid)
            _move(sock, size, None if flow.is_delivery else _blocks(flow, blocks))
            return [cpu_seconds(proxy.pid) - before]

    _, (seconds,) = load.side_by_side(broker, client)
    return seconds / count / MICROSECOND


def _blocks(flow: Flow, count: int) -> Iterator[bytes | memoryview]:
    """Yield blocks of messages with consecutive delivery tags from 1 on, as brokers number them."""
    blocks: Iterable[bytes | memoryview] = repeat(flow.message * deliveries.BLOCK, count)
    if flow.tag_at:
        blocks = map(deliveries.NumberedFrames(flow.message, flow.tag_at).block, range(count))
    for number, block in enumerate(blocks):
        yield block if number else block[len(flow.message) :]  # the tag 0 is never sent


def _move(sock: socket.socket, size: int, sent: Iterable[bytes | memoryview] | None) -> list[float]:
    """Send all blocks and wait until the peer closes, or receive `size` bytes and close."""
    if sent is not None:
        for block in sent:
            sock.sendall(block)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(load.BUFFER):
            pass
        return []
    left = size
    buffer = memoryview(bytearray(load.BUFFER))
    while left > 0:  # the proxy may add its close of the connection
        got = sock.recv_into(buffer)
        if not got:
            raise ValueError(f"closed {left} bytes too early")
        left -= got
    sock.shutdown(socket.SHUT_WR)
    return []
