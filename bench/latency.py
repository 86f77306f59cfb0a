"""What a proxy adds to a round trip: one small publish, answered by one basic.ack, on one idle connection."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from statistics import median, quantiles

from bench import load, talk
from bench.peers import Proxy, contenders, listener
from bench.report import Goal, Row, progress

ROUND_TRIPS = 20_000
MESSAGE = talk.publish(bytes(100))
GOAL = Goal(2.0, is_most=True)
MICROSECOND = 1e-6


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Rows for the median and the 99th percentile, in microseconds beyond the round trip without a proxy."""
    with listener() as listening, contenders(listening.getsockname()[1]) as (proxies, missing):
        yield from missing
        progress("latency: ping-pong")
        times = max(200, int(ROUND_TRIPS * scale / rounds))
        trips: dict[str, list[list[float]]] = {proxy.name: [] for proxy in proxies}
        for turn in range(rounds):
            for proxy in proxies if turn % 2 == 0 else reversed(proxies):
                trips[proxy.name].append(round_trips(listening, proxy, times))
    medians = {name: [median(each) / MICROSECOND for each in by_round] for name, by_round in trips.items()}
    highs = {name: [quantiles(each, n=100)[98] / MICROSECOND for each in by_round] for name, by_round in trips.items()}
    peers = ("haproxy", "haproxy x1")
    yield Row("Round trip", "median, whole", "µs", medians)
    yield Row("Round trip", "99th percentile, whole", "µs", highs)
    yield Row("Round trip", "added median", "µs", added(medians), peers, GOAL, less_is_better=True)
    yield Row("Round trip", "added 99th percentile", "µs", added(highs), peers, less_is_better=True)


def added(figures: dict[str, list[float]]) -> dict[str, list[float]]:
    """What each proxy has more than no proxy, round by round."""
    direct = figures["no proxy"]
    return {
        name: [max(0.01, figure - base) for figure, base in zip(values, direct, strict=True)]
        for name, values in figures.items()
        if name != "no proxy"
    }


def round_trips(listening: socket.socket, proxy: Proxy, times: int) -> list[float]:
    """The seconds of each."""
    acknowledgement = talk.ack()

    def broker() -> list[float]:
        sock, _ = listening.accept()
        talk.answer(sock, confirms=True)
        return load.pong(sock, len(MESSAGE), acknowledgement, times)

    def client() -> list[float]:
        sock = talk.connect(proxy.port)
        talk.select_confirms(sock)
        return load.ping(sock, MESSAGE, len(acknowledgement), times)

    return load.side_by_side(broker, client)[1]
