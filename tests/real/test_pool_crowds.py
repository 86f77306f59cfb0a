"""Pools under many clients, and for long: `make pool` runs these, and prints what they measure."""

from __future__ import annotations

import logging
import os
import random
import selectors
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from tests.real import raw
from tests.real.fleet import Fleet
from tests.real.malformed import MALFORMED, ask
from tests.real.neighbourhood import FURTHER, Beside, Neighbourhood
from tests.real.own import OwnBroker
from tests.real.publishers import CONFIRM_SELECT, Publisher
from tests.real.rabbitmq import RabbitMQ
from tests.real.raw import Peer

pytestmark = [pytest.mark.real, pytest.mark.soak]

log = logging.getLogger(__name__)

MINUTES = float(os.environ.get("MINUTES", "60"))
RATE = 500
"""Short-lived clients a second."""

THREADS = 24
HEARTBEAT = 10
LISTENERS = 10_000
"""Clients that do nothing but exchange heartbeats; the test's limit of open files must allow for as many sockets."""


@pytest.fixture(autouse=True)
def deadline() -> None:
    """In place of the deadline of other tests: these take as long as they are told to."""


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def short_lived(port: int) -> None:
    """Connect, publish one message with a confirm, close."""
    with Peer.opened(port, 1, properties=raw.product("short-lived")) as peer:
        peer.send(CONFIRM_SELECT)
        peer.expect(85, 11)
        peer.send(raw.message(1, "nowhere", bytes(100)))
        peer.expect(60, 80)
        peer.send(raw.connection_close())
        peer.expect(10, 51)


def test_short_lived_clients_leave_nothing_behind(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    neighbourhood = Neighbourhood(tmp_path, rabbitmq.port, trust=30.0)
    fleet, numbers = neighbourhood.fleet, count()
    began = time.monotonic()
    end = began + 60 * MINUTES
    served = 0

    def run() -> None:
        nonlocal served
        while (due := began + next(numbers) / RATE) < end:
            time.sleep(max(0.0, due - time.monotonic()))
            short_lived(fleet.port)
            served += 1

    try:
        with ThreadPoolExecutor(THREADS) as threads:
            runs = [threads.submit(run) for _ in range(THREADS)]
            looks: list[tuple[int, int]] = []
            while time.monotonic() < end:
                time.sleep(max(0.0, min(30.0, end - time.monotonic())))
                looks.append((fleet.rss(), fleet.descriptors()))
                rate = served / (time.monotonic() - began)
                log.info(
                    "%d clients, %.0f a second; %.1f MiB, %d descriptors",
                    served,
                    rate,
                    looks[-1][0] / 2**20,
                    looks[-1][1],
                )
            for each in runs:
                each.result()
        warm = looks[len(looks) // 5]
        assert looks[-1][0] < warm[0] + 16 * 2**20
        assert neighbourhood.pool()["clients"] == 0
        assert neighbourhood.pool()["connections"] <= 8
        assert fleet.descriptors() <= warm[1] + THREADS
        assert "Traceback" not in fleet.log
    finally:
        fleet.kill()


def test_hostile_neighbours_do_not_slow_63_others(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    """Also at full size: random frames, bodies of 100 MB, all channels, wrong passwords, a client that never reads."""
    neighbourhood = Neighbourhood(tmp_path, rabbitmq.port)
    cases = [case for case in [*MALFORMED, *FURTHER] if not case.is_handshake]
    try:
        with Beside(neighbourhood, size=63, window=1, pause=0.1) as beside, ThreadPoolExecutor(4) as threads:
            time.sleep(20)
            quiet = _taken(beside.clients)
            runs = [threads.submit(ask, neighbourhood.port, case, neighbourhood.visitor()) for case in 5 * cases]
            runs += [threads.submit(_rubbish, neighbourhood, seed) for seed in range(2000)]
            runs += [threads.submit(_wrong_password, neighbourhood, each) for each in range(2000)]
            runs += [threads.submit(_large, neighbourhood) for _ in range(5)]
            runs.append(threads.submit(_all_channels, neighbourhood))
            for each in runs:
                each.result()
            hostile = _taken(beside.clients)
        for name, times in (("quiet", quiet), ("beside hostile clients", hostile)):
            log.info(
                "publish to confirm, %s: median %.1f ms, p99 %.1f ms, most %.1f ms",
                name,
                *(1000 * percentile(times, part) for part in (0.5, 0.99, 1.0)),
            )
        assert "Traceback" not in neighbourhood.fleet.log
    finally:
        neighbourhood.fleet.kill()


def _taken(publishers: list[Publisher]) -> list[float]:
    """Take the times that have been measured."""
    found: list[float] = []
    for each in publishers:
        times, each.seconds = each.seconds, []
        found += times
    return found


def _rubbish(neighbourhood: Neighbourhood, seed: int) -> None:
    """Send 500 frames, some of which have other bytes than they should."""
    chance = random.Random(seed)
    with neighbourhood.opened(1) as peer, suppress(OSError, ValueError):
        spoilt = bytearray(b"".join(raw.message(1, "nowhere", b"rubbish") for _ in range(167)))
        for _ in range(chance.randrange(1, 4)):
            spoilt[chance.randrange(len(spoilt) * 3 // 4, len(spoilt))] = chance.randrange(256)
        peer.send(bytes(spoilt))
        peer.stream.shutdown(socket.SHUT_WR)
        peer.closed()


def _wrong_password(neighbourhood: Neighbourhood, number: int) -> None:
    with Peer.connect(neighbourhood.port) as peer:
        peer.send(raw.PROTOCOL_HEADER)
        peer.expect(10, 10)
        peer.send(raw.start_ok(password=f"wrong {number}"))
        close = peer.closed()
        assert close is not None
        assert close.code == 403


def _large(neighbourhood: Neighbourhood) -> None:
    with neighbourhood.opened(1) as peer, suppress(OSError):
        peer.send(CONFIRM_SELECT, raw.message(1, "nowhere", bytes(100_000_000)))
        peer.expect(85, 11)
        peer.expect(60, 80)


def _all_channels(neighbourhood: Neighbourhood) -> None:
    with neighbourhood.opened(*()) as peer, suppress(OSError):
        for each in range(1, 65_536):
            peer.send(raw.channel_open(each))
        peer.closed()


@pytest.fixture
def two_brokers(tmp_path: Path) -> Iterator[list[OwnBroker]]:
    brokers = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        brokers.append(OwnBroker(tmp_path / name))
    yield brokers
    for each in brokers:
        each.process.send_signal(signal.SIGCONT)
        each.kill()


def test_heartbeats_of_10000_clients_are_in_time(two_brokers: list[OwnBroker], tmp_path: Path) -> None:
    """While one of two brokers is stopped, and one client: no other client is closed, or waits for a heartbeat."""
    members = [{"address": f"127.0.0.1:{each.port}"} for each in two_brokers]
    pool = {"upstreams": 200, "total": 200, "trust": 600.0}
    fleet = Fleet(tmp_path, members=members, pool=pool, limits={"connections": 2 * LISTENERS})
    peers: list[Peer] = []
    try:
        with ThreadPoolExecutor(THREADS) as threads:
            options = {"heartbeat": HEARTBEAT, "properties": raw.product("listener")}
            before = fleet.rss()
            for _ in range(10):  # with heartbeats between, without which the first would be taken for dead
                peers += threads.map(lambda number: Peer.opened(fleet.port, 1, **options), range(LISTENERS // 10))
                for peer in peers:
                    peer.send(raw.frame(raw.HEARTBEAT, 0))
        log.info("%d idle clients of a pool: %.1f KiB each", len(peers), (fleet.rss() - before) / 1024 / len(peers))
        two_brokers[0].process.send_signal(signal.SIGSTOP)
        gaps, closed = _heartbeats(peers[1:], 4 * HEARTBEAT)
        late = sorted(gaps)[-10:]
        log.info("longest gaps between heartbeats, of %d s: %s", HEARTBEAT // 2, [round(each, 2) for each in late])
        assert closed == 0
        assert len(gaps) >= 6 * (len(peers) - 1)
    finally:
        for peer in peers:
            peer.stream.close()
        fleet.kill()


def _heartbeats(peers: list[Peer], seconds: float) -> tuple[list[float], int]:
    """Exchange heartbeats; return the times between those of each peer, and how many connections have ended."""
    gaps: list[float] = []
    closed = 0
    beat = raw.frame(raw.HEARTBEAT, 0)
    with selectors.DefaultSelector() as selector:
        heard: dict[int, float] = {}
        for peer in peers:
            selector.register(peer.stream, selectors.EVENT_READ, peer)
        end = time.monotonic() + seconds
        due = 0.0
        while (now := time.monotonic()) < end:
            if now >= due:
                due = now + HEARTBEAT / 2
                for peer in peers:
                    with suppress(OSError):
                        peer.stream.send(beat)
            for key, _ in selector.select(max(0.0, min(due, end) - time.monotonic())):
                peer, now = key.data, time.monotonic()
                data = b""
                with suppress(ConnectionResetError):
                    data = peer.stream.recv(65_536)
                if not data or data.replace(beat, b""):
                    closed += 1
                    selector.unregister(peer.stream)
                    continue
                if key.fd in heard:
                    gaps.append(now - heard[key.fd])
                heard[key.fd] = now
    return gaps, closed
