"""Throughput of a relay: floods of publishes and of deliveries, every byte counted at the other end.

Deliveries have consecutive delivery tags, as from a broker, and are acknowledged singly, many at once, or not at all.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from bench import deliveries, load, talk
from bench.peers import Proxy, contenders, listener
from bench.report import Goal, Row, in_turns, progress

MEGABYTE = 1e6
GOAL = Goal(1.2)
MANY = 500
"""Deliveries that a consumer acknowledges at once: a typical prefetch count."""


class Load(NamedTuple):
    """Messages of one kind, and their direction."""

    name: str
    message: bytes
    connections: int = 1
    is_delivery: bool = False
    ack_every: int = 0


DELIVERY = talk.delivery(bytes(100))
DELIVERIES = Load("deliver 100 B", DELIVERY, is_delivery=True)
LOADS = (
    Load("publish 100 B", talk.publish(bytes(100))),
    Load("publish 1 KiB", talk.publish(bytes(1024))),
    Load("publish 64 KiB", talk.publish(bytes(65536))),
    Load("publish 100 B, 8 connections", talk.publish(bytes(100)), connections=8),
    DELIVERIES,
    Load("deliver 100 B, 8 connections", DELIVERY, connections=8, is_delivery=True),
    Load("deliver 100 B, each acked", DELIVERY, is_delivery=True, ack_every=1),
    Load("deliver 100 B, 500 acked at once", DELIVERY, is_delivery=True, ack_every=MANY),
)


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield a row for each load."""
    with listener() as listening, contenders(listening.getsockname()[1]) as (proxies, missing):
        yield from missing
        for each in LOADS:
            progress(f"relay: {each.name}")
            volume = int(400e6 * scale)
            jobs = {proxy.name: partial(throughput, listening, proxy, each, volume) for proxy in proxies}
            for job in jobs.values():
                job()  # warm-up: caches, ramps and first-time imports
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


def throughput(
    listening: socket.socket,
    proxy: Proxy,
    flow: Load,
    volume: int,
    connect: Callable[[int], socket.socket] = talk.connect,
) -> float:
    """Return megabytes per second through a proxy."""
    if flow.is_delivery:
        return _delivered(listening, proxy, flow, volume)
    data = load.fill(flow.message)
    times = max(1, volume // len(data) // flow.connections)

    def broker() -> list[float]:
        socks = []
        for _ in range(flow.connections):
            sock, _ = listening.accept()
            talk.answer(sock)
            socks.append(sock)
        return load.sink(socks, times * len(data))

    def client() -> list[float]:
        return load.flood([connect(proxy.port) for _ in range(flow.connections)], data, times)

    (at_broker,), (at_client,) = load.side_by_side(broker, client)
    seconds = abs(at_broker - at_client)
    return flow.connections * times * len(data) / seconds / MEGABYTE


def _delivered(listening: socket.socket, proxy: Proxy, flow: Load, volume: int) -> float:
    """Return megabytes of deliveries per second, until the last delivery and the last acknowledgement have arrived."""
    blocks = max(1, volume // (deliveries.BLOCK * len(flow.message)) // flow.connections)

    def broker() -> list[float]:
        socks = []
        for _ in range(flow.connections):
            sock, _ = listening.accept()
            talk.answer(sock)
            socks.append(sock)
        times = load.each(lambda sock: deliveries.serve(sock, flow.message, blocks, flow.ack_every), socks)
        return [min(began for began, _ in times), max(ended for _, ended in times)]

    def client() -> list[float]:
        socks = [talk.connect(proxy.port) for _ in range(flow.connections)]
        for sock in socks:
            deliveries.subscribe(sock, flow.ack_every)
        return [max(load.each(lambda sock: deliveries.receive(sock, flow.message, blocks, flow.ack_every), socks))[0]]

    (began, acked), (received,) = load.side_by_side(broker, client)
    size = deliveries.count(blocks) * len(flow.message)
    return flow.connections * size / (max(acked, received) - began) / MEGABYTE
