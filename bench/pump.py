"""What a pump costs, beside HAProxy in TCP mode with one thread, and beside the same proxy without a pump.

Bulk, a round trip in a closed loop, and round trips at a fixed rate, over one connection and over many: there the price
is that of waking up. Each message is one small publish, answered by one basic.ack.
"""

from __future__ import annotations

import selectors
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from statistics import median

import psutil

from bench import load, peers, relay, talk
from bench.latency import MESSAGE, MICROSECOND, added, round_trips
from bench.memory import resident
from bench.peers import Proxy
from bench.report import Goal, Missing, Row, in_turns, progress

SECTION = "One pump"
HAPROXY = "haproxy x1"
WITHOUT = "no pump"
RATE = 1000
CONNECTIONS = (1, 10, 100)
IDLE = 1000
WARM = 20
"""Messages on each connection before the price of one is measured."""
BULK = relay.LOADS[0]


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Rows for bulk, for round trips, for the CPU time of one, and for an idle connection."""
    every = set(range(psutil.cpu_count() or 1))
    with ExitStack() as stack:
        listening = stack.enter_context(peers.listener())
        port = listening.getsockname()[1]
        proxies = [Proxy("no proxy", port)]
        try:
            proxies.append(stack.enter_context(peers.haproxy(port, threads=1)))
        except Missing as lack:
            yield str(lack)
        config = Path(stack.enter_context(tempfile.TemporaryDirectory()), "pump.toml")
        config.write_text("threads = 1\n")
        proxies.append(stack.enter_context(peers.amqproxy(port))._replace(name=WITHOUT))
        proxies.append(stack.enter_context(peers.amqproxy(port, config)))

        progress("pump: bulk")
        volume = int(400e6 * scale)
        bulk = {proxy.name: partial(relay.throughput, listening, proxy, BULK, volume) for proxy in proxies}
        for job in bulk.values():
            job()
        yield Row(SECTION, BULK.name, "MB/s", in_turns(bulk, rounds), (HAPROXY,), Goal(1.2))

        progress("pump: closed loop")
        times = max(200, int(6000 * scale))
        loop = {
            proxy.name: lambda proxy=proxy: median(round_trips(listening, proxy, times, every)) / MICROSECOND
            for proxy in proxies
        }
        figures = added(in_turns(loop, rounds))
        yield Row(SECTION, "closed loop, added", "µs", figures, (HAPROXY,), Goal(0.9, True), less_is_better=True)

        for count in CONNECTIONS:
            progress(f"pump: {RATE:,} a second on {count} connections")
            yield from _paced(listening, proxies, count, rounds, max(1.0, 4 * scale))

        progress(f"pump: {IDLE} idle connections")
        idle = {proxy.name: [resident(listening, proxy, IDLE)] for proxy in proxies if proxy.pid is not None}
        yield Row(SECTION, "idle connection", "KiB", idle, goal=Goal(6.0, True), less_is_better=True)


def _paced(listening: socket.socket, proxies: list[Proxy], count: int, rounds: int, seconds: float) -> Iterator[Row]:
    trips: dict[str, list[float]] = {proxy.name: [] for proxy in proxies}
    costs: dict[str, list[float]] = {proxy.name: [] for proxy in proxies if proxy.pid is not None}
    for turn in range(rounds):
        for proxy in proxies if turn % 2 == 0 else reversed(proxies):
            trip, cost = paced(listening, proxy, count, seconds)
            trips[proxy.name].append(trip / MICROSECOND)
            if proxy.pid is not None:
                costs[proxy.name].append(cost / MICROSECOND)
    name = f"{RATE:,}/s on {count}"
    yield Row(SECTION, f"{name}, added", "µs", added(trips), (HAPROXY,), Goal(0.9, True), less_is_better=True)
    yield Row(SECTION, f"{name}, CPU a message", "µs", costs, (HAPROXY,), Goal(1.0, True), less_is_better=True)


def paced(listening: socket.socket, proxy: Proxy, count: int, seconds: float) -> tuple[float, float]:
    """The median of round trips at a fixed rate, over so many connections in turn; the proxy's CPU time for each.

    Only of connections that are open and have passed some messages: opening one is another price.
    """
    messages = int(RATE * seconds)
    _, (spent, *trips) = load.side_by_side(
        partial(_answer_all, listening, count), partial(_send_paced, proxy, count, messages)
    )
    return median(trips), spent / messages


def _send_paced(proxy: Proxy, count: int, messages: int) -> list[float]:
    """The proxy's CPU time, then the times of the round trips."""
    socks = []
    size = len(talk.ack())
    for _ in range(count):
        socks.append(talk.connect(proxy.port))
        talk.select_confirms(socks[-1])
    for sock in socks * WARM:
        sock.send(MESSAGE)
        talk.read_exactly(sock, size)
    process = None if proxy.pid is None else psutil.Process(proxy.pid)
    before = 0.0 if process is None else sum(process.cpu_times()[:2])
    trips = []
    due = time.perf_counter()
    for sock in islice(cycle(socks), messages):
        due += 1 / RATE
        time.sleep(max(0.0, due - time.perf_counter()))
        began = time.perf_counter()
        sock.send(MESSAGE)
        talk.read_exactly(sock, size)
        trips.append(time.perf_counter() - began)
    spent = 0.0 if process is None else sum(process.cpu_times()[:2]) - before
    for sock in socks:
        sock.close()
    return [spent, *trips]


def _answer_all(listening: socket.socket, count: int) -> list[float]:
    selector = selectors.DefaultSelector()
    acknowledgement = talk.ack()
    for _ in range(count):
        sock = listening.accept()[0]
        talk.answer(sock, confirms=True)
        selector.register(sock, selectors.EVENT_READ)
    left = dict.fromkeys((key.fd for key in selector.get_map().values()), len(MESSAGE))
    while selector.get_map():
        for key, _ in selector.select():
            assert isinstance(key.fileobj, socket.socket)
            sock = key.fileobj
            data = sock.recv(left[key.fd])
            left[key.fd] -= len(data)
            if not data:
                selector.unregister(sock)
                sock.close()
            elif not left[key.fd]:
                left[key.fd] = len(MESSAGE)
                sock.send(acknowledgement)
    return []
