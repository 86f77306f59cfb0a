"""TLS on the client's leg, on the upstream's, and on both, beside HAProxy in TCP mode, with the same OpenSSL.

Measured are bulk and its CPU time, round trips at a fixed rate and their CPU time, idle connections, and handshakes.
"""

from __future__ import annotations

import socket
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from bench import load, peers, pump, relay, talk
from bench.memory import Handshake, resident
from bench.peers import Placement, Proxy, listener, placements, program
from bench.report import Goal, Missing, Row, in_turns, progress

SECTION = "TLS"
HAPROXY = "haproxy x1"
LOADS = (relay.LOADS[0], relay.LOADS[1])
BULK, COST, TRIP, HANDSHAKES = Goal(0.9), Goal(1.2, True), Goal(1.0, True), Goal(0.8)
IDLE_GOAL = Goal(24.0, True)
IDLE = 1000
OPENED = 300
"""Connections that are opened one after the other by each of two clients."""

SECONDS = 1.5
CONNECTIONS = (1, 100)
VOLUME = 300e6


class Legs(NamedTuple):
    """Which legs are over TLS."""

    name: str
    client: bool
    upstream: bool


class Ends(NamedTuple):
    """The proxies between legs of one kind, the broker's listening socket, and how a client connects."""

    proxies: list[Proxy]
    listening: socket.socket
    connect: Callable[[int], socket.socket]


LEGS = (Legs("client", True, False), Legs("upstream", False, True), Legs("both", True, True))


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield rows for each kind of legs; a text says what is missing."""
    try:
        with tempfile.TemporaryDirectory() as directory:
            certificate = _certificate(Path(directory))
            for legs in LEGS:
                with _between(legs, certificate) as ends:
                    yield from _bulk(legs, ends, rounds, scale)
                    yield from _paced(legs, ends, rounds, scale)
                with _between(legs, certificate) as ends:  # new proxies, as freed memory is reused
                    yield _idle(legs, ends, scale)
                    if legs.client:
                        yield _handshakes(legs, ends, rounds, scale)
    except Missing as lack:
        yield str(lack)


def _certificate(directory: Path) -> Path:
    """Write a self-signed certificate of a P-256 key into one file with its key, as HAProxy reads it."""
    key, path = directory / "key.pem", directory / "certificate.pem"
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost"]
    command = [
        program("openssl", "openssl"),
        "req",
        "-x509",
        *kind,
        "-days",
        "2",
        "-keyout",
        str(key),
        "-out",
        str(path),
    ]
    subprocess.run(command, check=True, capture_output=True)
    path.write_text(path.read_text() + key.read_text())
    return path


@contextmanager
def _between(legs: Legs, certificate: Path) -> Iterator[Ends]:
    """Start HAProxy and amqproxy, with one thread and one pump, between legs of this kind."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate)
    config = certificate.parent / "amqproxy.toml"
    config.write_text(
        f"threads = 1\nlimits.connections = {2 * IDLE}\n"
        + (
            f'[[listen]]\naddress = "127.0.0.1:0"\ntls = {{ certificate = "{certificate}", key = "{certificate}" }}\n'
            if legs.client
            else ""
        )
        + ("[upstream.tls]\nverify = false\n" if legs.upstream else "")
    )
    with ExitStack() as stack:
        listening = stack.enter_context(listener())
        port = listening.getsockname()[1]
        bind = f"ssl crt {certificate}" if legs.client else ""
        given = "ssl verify none" if legs.upstream else ""
        proxies = [
            stack.enter_context(peers.haproxy(port, threads=1, connections=2 * IDLE, bind=bind, server=given)),
            stack.enter_context(peers.amqproxy(port, config, has_listener=legs.client)),
        ]
        if legs.upstream:
            listening = stack.enter_context(server.wrap_socket(listening, server_side=True))
        connect = partial(talk.connect, context=client) if legs.client else talk.connect
        yield Ends(proxies, listening, connect)


def _bulk(legs: Legs, ends: Ends, rounds: int, scale: float) -> Iterator[Row]:
    volume = int(VOLUME * scale)
    for flow in LOADS:
        progress(f"tls: {legs.name}, {flow.name}")
        costs: dict[str, list[float]] = {proxy.name: [] for proxy in ends.proxies}
        jobs = {each.name: partial(_throughput, ends, each, flow, volume, costs[each.name]) for each in ends.proxies}
        for job in jobs.values():
            job()
        for figures in costs.values():
            figures.clear()
        yield Row(SECTION, f"{legs.name}: {flow.name}", "MB/s", in_turns(jobs, rounds), (HAPROXY,), BULK)
        yield Row(SECTION, "  CPU a message", "µs", costs, (HAPROXY,), COST, less_is_better=True)


def _throughput(ends: Ends, proxy: Proxy, flow: relay.Load, volume: int, costs: list[float]) -> float:
    """Return megabytes per second through a proxy; append its CPU microseconds a message to `costs`."""
    assert proxy.pid is not None
    before = pump.cpu_seconds(proxy.pid)
    rate = relay.throughput(ends.listening, proxy, flow, volume, ends.connect)
    costs.append((pump.cpu_seconds(proxy.pid) - before) * len(flow.message) / volume * 1e6)
    return rate


def _paced(legs: Legs, ends: Ends, rounds: int, scale: float) -> Iterator[Row]:
    exchange = pump.CONFIRMED._replace(connect=partial(_confirming, ends.connect))
    placement = _placed(ends.proxies)
    for count in CONNECTIONS:
        progress(f"tls: {legs.name}, 1,000 round trips a second, {count} connections")
        seconds = max(0.3, SECONDS * scale)
        trips, costs = pump.paced_rounds(
            ends.listening, ends.proxies, placement, count, max(1, rounds // 2), seconds, exchange
        )
        name = f"{legs.name}: 1,000/s over {count}, round trip"
        yield Row(SECTION, name, "µs", trips, (HAPROXY,), TRIP, less_is_better=True)
        yield Row(SECTION, "  CPU a message", "µs", costs, (HAPROXY,), COST, less_is_better=True)


def _placed(proxies: list[Proxy]) -> Placement:
    placement = placements()[0]
    placement.put(proxies)
    return placement


def _confirming(connect: Callable[[int], socket.socket], port: int) -> socket.socket:
    sock = connect(port)
    talk.select_confirms(sock)
    return sock


def _idle(legs: Legs, ends: Ends, scale: float) -> Row:
    count = max(100, int(IDLE * min(1.0, 2 * scale)))
    progress(f"tls: {legs.name}, {count} idle connections")
    spoken = Handshake(ends.connect, talk.answer)
    figures = {proxy.name: [resident(ends.listening, proxy, count, spoken)] for proxy in ends.proxies}
    return Row(SECTION, f"{legs.name}: {count:,} idle connections, each", "KiB", figures, (), IDLE_GOAL)


def _handshakes(legs: Legs, ends: Ends, rounds: int, scale: float) -> Row:
    progress(f"tls: {legs.name}, handshakes")
    opened = max(30, int(OPENED * min(1.0, scale)))
    jobs = {proxy.name: partial(_opened, ends, proxy, opened) for proxy in ends.proxies}
    figures = in_turns(jobs, rounds)
    return Row(SECTION, f"{legs.name}: connections opened", "1/s", figures, (HAPROXY,), HANDSHAKES)


def _opened(ends: Ends, proxy: Proxy, count: int) -> float:
    """Return the connections opened per second by two clients, each with its AMQP handshake."""

    def opening() -> list[float]:
        began = monotonic()
        for _ in range(count):
            ends.connect(proxy.port).close()
        return [began, monotonic()]

    with load.fork_open(ends.listening, 2 * count):
        times = load.side_by_side(opening, opening)
    return 2 * count / (max(end for _, end in times) - min(began for began, _ in times))
