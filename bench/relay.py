"""Throughput of a relay: floods of publishes and of deliveries, every byte counted at the other end."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from bench import load, talk
from bench.peers import Proxy, contenders, listener
from bench.report import Goal, Row, in_turns, progress

MEGABYTE = 1e6
GOAL = Goal(0.5)


class Load(NamedTuple):
    """Messages of one kind, and their direction."""

    name: str
    message: bytes
    connections: int = 1
    is_delivery: bool = False


LOADS = (
    Load("publish 100 B", talk.publish(bytes(100))),
    Load("publish 1 KiB", talk.publish(bytes(1024))),
    Load("publish 64 KiB", talk.publish(bytes(65536))),
    Load("publish 100 B, 8 connections", talk.publish(bytes(100)), connections=8),
    Load("deliver 100 B", talk.delivery(bytes(100)), is_delivery=True),
)


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """A row for each load."""
    with listener() as listening, contenders(listening.getsockname()[1]) as (proxies, missing):
        yield from missing
        for each in LOADS:
            progress(f"relay: {each.name}")
            volume = int(400e6 * scale)
            jobs = {proxy.name: partial(throughput, listening, proxy, each, volume) for proxy in proxies}
            for job in jobs.values():
                job()  # once for nothing: caches, ramps and first-time imports
            figures = in_turns(jobs, rounds)
            best = sorted(figures["amqproxy"])[rounds // 2] * MEGABYTE / len(each.message)
            yield Row(
                "Relay throughput",
                each.name,
                "MB/s",
                figures,
                ("haproxy", "haproxy x1"),
                GOAL,
                f"{best / 1e6:.2f} M msg/s" if best > 1e5 else "",
            )


def throughput(listening: socket.socket, proxy: Proxy, flow: Load, volume: int) -> float:
    """Megabytes a second through a proxy."""
    data = load.fill(flow.message)
    times = max(1, volume // len(data) // flow.connections)

    def broker() -> list[float]:
        socks = []
        for _ in range(flow.connections):
            sock, _ = listening.accept()
            talk.answer(sock, consumes=flow.is_delivery)
            socks.append(sock)
        return load.flood(socks, data, times) if flow.is_delivery else load.sink(socks, times * len(data))

    def client() -> list[float]:
        socks = []
        for _ in range(flow.connections):
            sock = talk.connect(proxy.port)
            if flow.is_delivery:
                talk.consume(sock)
            socks.append(sock)
        return load.sink(socks, times * len(data)) if flow.is_delivery else load.flood(socks, data, times)

    (at_broker,), (at_client,) = load.side_by_side(broker, client)
    seconds = abs(at_broker - at_client)
    return flow.connections * times * len(data) / seconds / MEGABYTE
