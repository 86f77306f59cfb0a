"""Memory of idle connections, with a pump, without one, and beside HAProxy."""

from __future__ import annotations

import resource
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import psutil

from bench import talk, talk_0_10
from bench.load import fork_open
from bench.peers import Proxy, amqproxy, haproxy, listener
from bench.report import Goal, Missing, Row, progress

CONNECTIONS = (1000, 10_000)
FIRST = 50
"""Connections that are opened before, so that the cost of the first ones is not counted."""

SPARE = 200
"""Descriptors that a proxy needs besides two for each connection."""

KIB = 1024
WITHOUT = "no pump"
GOAL = Goal(6.0, is_most=True)
SETTLED = 1.0
"""Seconds between two equal readings of the resident memory, after which it counts as settled."""

PATIENCE = 30.0


class Handshake(NamedTuple):
    """Functions by which a client and a broker open a connection with a channel."""

    connect: Callable[[int], socket.socket]
    accept: Callable[[socket.socket], object]


AMQP_0_9_1 = Handshake(talk.connect, talk.answer)
PROTOCOLS = {"": AMQP_0_9_1, " of AMQP 0-10": Handshake(talk_0_10.connect, talk_0_10.accept)}


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield a row for each number of connections in each protocol: resident KiB per connection, with both legs."""
    most = (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE) // 2 - FIRST
    for name, spoken in PROTOCOLS.items():  # each with new proxies, as freed memory is reused
        with ExitStack() as stack:
            listening = stack.enter_context(listener())
            proxies, missing = _proxies(stack, listening.getsockname()[1], most)
            yield from missing
            for number in CONNECTIONS:
                count = min(most, max(100, int(number * min(1.0, 2 * scale))))
                progress(f"memory: {count} idle connections{name}")
                figures = {proxy.name: [resident(listening, proxy, count, spoken)] for proxy in proxies}
                title = f"{count:,} idle connections{name}, each"
                yield Row("Memory", title, "KiB", figures, goal=GOAL, less_is_better=True)


def _proxies(stack: ExitStack, port: int, most: int) -> tuple[list[Proxy], list[str]]:
    """Start HAProxy, and amqproxy without a pump and with one; return them, and the missing programs."""
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    limit = f"limits.connections = {max(CONNECTIONS) + FIRST}\n"
    directory.joinpath("plain.toml").write_text(f"threads = 0\n{limit}")
    directory.joinpath("pump.toml").write_text(f"threads = 1\n{limit}")
    proxies, missing = [], []
    try:
        proxies.append(stack.enter_context(haproxy(port, threads=1, connections=most + FIRST)))
    except Missing as lack:
        missing.append(str(lack))
    proxies.append(stack.enter_context(amqproxy(port, directory / "plain.toml"))._replace(name=WITHOUT))
    proxies.append(stack.enter_context(amqproxy(port, directory / "pump.toml")))
    return proxies, missing


def resident(listening: socket.socket, proxy: Proxy, count: int, spoken: Handshake = AMQP_0_9_1) -> float:
    """Return the proxy's resident KiB per connection with `count` more connections, once it has settled."""
    process = psutil.Process(proxy.pid)
    with ExitStack() as stack:
        stack.enter_context(fork_open(listening, count + FIRST, spoken.accept))
        for _ in range(FIRST):
            stack.enter_context(spoken.connect(proxy.port))
        before = _settled(process)
        for _ in range(count):
            stack.enter_context(spoken.connect(proxy.port))
        return (_settled(process) - before) / count / KIB


def _settled(process: psutil.Process) -> int:
    found = process.memory_info().rss
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        time.sleep(SETTLED)
        before, found = found, process.memory_info().rss
        if found == before:
            break
    return found
