"""The cost of a pump, beside HAProxy in TCP mode with one thread, and beside the same proxy without a pump.

Measured are bulk, round trips in a closed loop, and round trips at a fixed rate over one connection and over many,
where waking up dominates. Each message is one small publish, answered by one basic.ack.

The cost of waking a process depends on where the scheduler places it: round trips are measured in each placement.
"""

from __future__ import annotations

import resource
import selectors
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil

from bench import load, peers, rabbitmq, relay, talk
from bench.latency import MESSAGE, MICROSECOND, added, round_trips
from bench.memory import resident
from bench.peers import Placement, Proxy, placements
from bench.report import SUBJECT, Goal, Missing, Row, in_turns, progress

SECTION = "One pump"
IN_FRONT = "One pump, in front of RabbitMQ"
HAPROXY, HAPROXY_TWO = "haproxy x1", "haproxy x2"
WITHOUT, TWO = "no pump", "two pumps"
RATE = 1000
CONNECTIONS = {1: 3, 10: 3, 100: 3, 1000: 2}
"""Numbers of connections, and the maximum rounds for each, since opening them takes long."""

MOST_CONNECTIONS = 10_000
"""Largest number of connections, in one round and only in the first placement, for the same reason."""

SECONDS = 1.5
"""Seconds of a round at a fixed rate; longer if some connections would not get a message."""

SPARE = 100
"""Pairs of descriptors that a proxy needs besides those of its connections."""

IDLE = 1000
WARM, LEAST_WARM = 20, 5
"""Messages on each connection before measuring; fewer with many connections."""

MANY = 1000
BULK = (relay.LOADS[0], relay.LOADS[3])
AS_HAPROXY = Goal(1.0)
LESS, NO_MORE = Goal(0.9, True), Goal(1.0, True)


class Exchange(NamedTuple):
    """A client's message, which the broker answers with `answers` of equal size in turn; and both sides' handshakes."""

    message: bytes
    answers: Sequence[bytes]
    connect: Callable[[int], socket.socket]
    accept: Callable[[socket.socket], None]


def _connect(port: int) -> socket.socket:
    sock = talk.connect(port)
    talk.select_confirms(sock)
    return sock


CONFIRMED = Exchange(MESSAGE, [talk.ack()], _connect, partial(talk.answer, confirms=True))
"""A small publish, and its basic.ack."""


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield rows for idle connections, bulk, round trips, and their CPU time; then the same before RabbitMQ."""
    with ExitStack() as stack:
        listening = stack.enter_context(peers.listener())
        port = listening.getsockname()[1]
        proxies, missing = contenders_with_pumps(stack, port)
        yield from missing
        two = [each for each in proxies if each.name in (HAPROXY_TWO, TWO)]
        one = [each for each in proxies if each not in two]
        yield _idle(listening, one)  # first, since these would reuse memory that many connections have freed
        yield from _bulk(listening, proxies, rounds, scale)

        beside = [each for each in one if each.name != WITHOUT]
        for placement in placements():
            placement.put(one)
            if placement == placements()[0]:
                yield from _round_trips(listening, one, placement, min(rounds, 5), scale)
                yield from _paced_rows(listening, beside, placement, MOST_CONNECTIONS, 1, scale)
            else:  # the cost without a pump is measured in the first placement alone
                yield from _round_trips(listening, beside, placement, min(rounds, 5), scale)
    yield from _in_front(min(rounds, 3), scale)


def _idle(listening: socket.socket, proxies: list[Proxy]) -> Row:
    """Measure the memory of a connection, in processes that have had none before."""
    progress(f"pump: {IDLE} idle connections")
    figures = {proxy.name: [resident(listening, proxy, IDLE)] for proxy in proxies if proxy.pid is not None}
    return Row(SECTION, "idle connection", "KiB", figures, goal=Goal(6.0, True), less_is_better=True)


def _round_trips(
    listening: socket.socket, proxies: list[Proxy], placement: Placement, rounds: int, scale: float
) -> Iterator[Row]:
    """Measure round trips in a closed loop, then at a fixed rate over increasing numbers of connections."""
    section = f"{SECTION}, round trips {placement.name}"
    progress(f"pump: closed loop {placement.name}")
    times = max(200, int(6000 * scale))
    loop = {
        proxy.name: lambda proxy=proxy: median(round_trips(listening, proxy, times, placement)) / MICROSECOND
        for proxy in proxies
    }
    figures = added(in_turns(loop, rounds))
    yield Row(section, "closed loop, added", "µs", figures, (HAPROXY,), LESS, less_is_better=True)
    for count, most in CONNECTIONS.items():
        yield from _paced_rows(listening, proxies, placement, count, min(rounds, most), scale)


def _paced_rows(
    listening: socket.socket, proxies: list[Proxy], placement: Placement, wanted: int, rounds: int, scale: float
) -> Iterator[Row]:
    """Measure round trips at a fixed rate over `wanted` connections, or as many as descriptors allow."""
    section = f"{SECTION}, round trips {placement.name}"
    count = min(wanted, _most_connections() - SPARE)
    progress(f"pump: {RATE:,} a second on {count:,} connections {placement.name}")
    seconds = max(1.0, SECONDS * scale, scale * count / RATE)
    trips, costs = paced_rounds(listening, proxies, placement, count, rounds, seconds)
    name = f"{RATE:,}/s on {count:,}"
    yield Row(section, f"{name}, added", "µs", added(trips), (HAPROXY,), LESS, less_is_better=True)
    yield Row(section, f"{name}, CPU a message", "µs", costs, (HAPROXY,), NO_MORE, less_is_better=True)


def _most_connections() -> int:
    """Return the number of connections for which a proxy has descriptors."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2 - SPARE


def contenders_with_pumps(stack: ExitStack, port: int) -> tuple[list[Proxy], list[str]]:
    """Start HAProxy with one and two threads, and amqproxy with no, one and two pumps; also return missing programs."""
    proxies, missing = [Proxy("no proxy", port)], []
    try:
        for threads in (1, 2):
            proxies.append(stack.enter_context(peers.haproxy(port, threads=threads, connections=_most_connections())))
    except Missing as lack:
        missing.append(str(lack))
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    for threads, name in enumerate((WITHOUT, SUBJECT, TWO)):
        config = directory / f"{threads}.toml"
        config.write_text(f"threads = {threads}\n[limits]\nconnections = {_most_connections()}\n")
        proxies.append(stack.enter_context(peers.amqproxy(port, config))._replace(name=name))
    return proxies, missing


def _bulk(listening: socket.socket, proxies: list[Proxy], rounds: int, scale: float) -> Iterator[Row]:
    """Measure floods, of which each program's better number of threads counts."""
    for flow in BULK:
        progress(f"pump: bulk, {flow.name}")
        volume = int(400e6 * scale)
        jobs = {proxy.name: partial(relay.throughput, listening, proxy, flow, volume) for proxy in proxies}
        for job in jobs.values():
            job()
        figures = in_turns(jobs, rounds)
        with_two = figures.pop(TWO)
        note = "one pump"
        if median(with_two) > median(figures[SUBJECT]):
            figures[SUBJECT], note = with_two, TWO
        yield Row(SECTION, flow.name, "MB/s", figures, (HAPROXY, HAPROXY_TWO), Goal(1.2), note)


def _in_front(rounds: int, scale: float) -> Iterator[Row | str]:
    """Measure a publisher and a consumer of a real broker, and round trips from publish to confirm."""
    try:
        with peers.rabbitmq() as node, ExitStack() as stack:
            proxies, missing = contenders_with_pumps(stack, node.port)
            yield from missing
            left_out = (WITHOUT, HAPROXY_TWO, TWO)
            proxies = [each for each in proxies if each.name not in left_out]
            progress("pump: in front of RabbitMQ, publish and consume")
            count = int(rabbitmq.MESSAGES * scale)
            jobs = {proxy.name: partial(rabbitmq.throughput, proxy, count) for proxy in proxies}
            for job in jobs.values():
                job()
            figures = in_turns(jobs, rounds)
            yield Row(IN_FRONT, "publish and consume", "1000/s", figures, (HAPROXY,), AS_HAPROXY)
            progress("pump: in front of RabbitMQ, round trips to a confirm")
            times = max(200, int(2000 * scale))
            trips = in_turns({proxy.name: partial(rabbitmq.round_trip, proxy, times) for proxy in proxies}, 3 * rounds)
            yield Row(IN_FRONT, "publish to confirm, median", "µs", trips)
            yield Row(IN_FRONT, "added median", "µs", added(trips), (HAPROXY,), NO_MORE, less_is_better=True)
    except Missing as lack:
        yield str(lack)


def paced_rounds(
    listening: socket.socket,
    proxies: list[Proxy],
    placement: Placement,
    count: int,
    rounds: int,
    seconds: float,
    exchange: Exchange = CONFIRMED,
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return by proxy the median round trip and the CPU time per message of each round, both in µs."""
    trips: dict[str, list[float]] = {proxy.name: [] for proxy in proxies}
    costs: dict[str, list[float]] = {proxy.name: [] for proxy in proxies if proxy.pid is not None}
    for turn in range(rounds):
        for proxy in proxies if turn % 2 == 0 else reversed(proxies):
            trip, cost = paced(listening, proxy, count, seconds, placement, exchange)
            trips[proxy.name].append(trip / MICROSECOND)
            if proxy.pid is not None:
                costs[proxy.name].append(cost / MICROSECOND)
    return trips, costs


def paced(
    listening: socket.socket,
    proxy: Proxy,
    count: int,
    seconds: float,
    placement: Placement,
    exchange: Exchange,
) -> tuple[float, float]:
    """Return the median round trip at a fixed rate over `count` connections in turn, and the proxy's CPU time for each.

    The connections are opened and warmed up before, since the cost of opening one is measured elsewhere.
    """
    messages = int(RATE * seconds)
    _, (spent, *trips) = load.side_by_side(
        partial(_answer_all, listening, count, placement, exchange),
        partial(_send_paced, proxy, count, messages, placement, exchange),
    )
    return median(trips), spent / messages


def _send_paced(proxy: Proxy, count: int, messages: int, placement: Placement, exchange: Exchange) -> list[float]:
    """Return the proxy's CPU time, followed by the round trips."""
    placement.put_end()
    message, size = exchange.message, len(exchange.answers[0])
    socks = [exchange.connect(proxy.port) for _ in range(count)]
    for sock in socks * (WARM if count < MANY else LEAST_WARM):
        sock.send(message)
        talk.read_exactly(sock, size)
    before = 0.0 if proxy.pid is None else cpu_seconds(proxy.pid)
    trips = []
    due = time.perf_counter()
    for sock in islice(cycle(socks), messages):
        due += 1 / RATE
        time.sleep(max(0.0, due - time.perf_counter()))
        began = time.perf_counter()
        sock.send(message)
        talk.read_exactly(sock, size)
        trips.append(time.perf_counter() - began)
    spent = 0.0 if proxy.pid is None else cpu_seconds(proxy.pid) - before
    for sock in socks:
        sock.close()
    return [spent, *trips]


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process's threads, if possible from the kernel's schedstat in nanoseconds.

    The ticks of 10 ms in the kernel's usual figures would be a tenth of the measured value.
    """
    with suppress(OSError):
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return sum(int((each / "schedstat").read_text().split()[0]) for each in tasks) / 1e9
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _answer_all(listening: socket.socket, count: int, placement: Placement, exchange: Exchange) -> list[float]:
    placement.put_end()
    selector = selectors.DefaultSelector()
    answers: dict[int, Iterator[bytes]] = {}
    for _ in range(count):
        sock = listening.accept()[0]
        exchange.accept(sock)
        selector.register(sock, selectors.EVENT_READ)
        answers[sock.fileno()] = cycle(exchange.answers)
    size = len(exchange.message)
    left = dict.fromkeys(answers, size)
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
                left[key.fd] = size
                sock.send(next(answers[key.fd]))
    return []
