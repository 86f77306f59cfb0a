"""The latency that a proxy adds to a round trip: one small publish, answered by one basic.ack, on one idle connection.

The scheduler's placement of three processes on a few cores changes these figures more than any proxy does, so they are
measured in several placements: unrestricted; all on one core, where only the work counts; and with the proxy on
its own core, where waking another core counts too.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from statistics import median, quantiles

from bench import load, talk
from bench.peers import Placement, Proxy, contenders, listener, placements
from bench.report import Goal, Row, progress

ROUND_TRIPS = 20_000
MESSAGE = talk.publish(bytes(100))
GOAL = Goal(2.0, is_most=True)
MICROSECOND = 1e-6
PEERS = ("haproxy", "haproxy x1")


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield rows for the median and the 99th percentile, in microseconds beyond the round trip without a proxy."""
    rounds *= 3  # short ones, since the placement differs between rounds
    times = max(200, int(ROUND_TRIPS * scale / rounds))
    with listener() as listening, contenders(listening.getsockname()[1]) as (proxies, missing):
        yield from missing
        for placement in placements():
            progress(f"latency: ping-pong {placement.name}")
            placement.put(proxies)
            trips: dict[str, list[list[float]]] = {proxy.name: [] for proxy in proxies}
            for turn in range(rounds):
                for proxy in proxies if turn % 2 == 0 else reversed(proxies):
                    trips[proxy.name].append(round_trips(listening, proxy, times, placement))
            yield from _rows(trips, placement.name)


def _rows(trips: dict[str, list[list[float]]], where: str) -> Iterator[Row]:
    section = f"Round trip, {where}"
    medians = {name: [median(each) / MICROSECOND for each in by_round] for name, by_round in trips.items()}
    highs = {name: [quantiles(each, n=100)[98] / MICROSECOND for each in by_round] for name, by_round in trips.items()}
    yield Row(section, "median", "µs", medians)
    yield Row(section, "99th percentile", "µs", highs)
    yield Row(section, "added median", "µs", added(medians), PEERS, GOAL, less_is_better=True)
    yield Row(section, "added 99th percentile", "µs", added(highs), PEERS, less_is_better=True)


def added(figures: dict[str, list[float]]) -> dict[str, list[float]]:
    """Return each proxy's medians minus the median without a proxy."""
    direct = median(figures["no proxy"])
    return {
        name: [max(0.01, figure - direct) for figure in values]
        for name, values in figures.items()
        if name != "no proxy"
    }


def round_trips(listening: socket.socket, proxy: Proxy, times: int, placement: Placement) -> list[float]:
    """Return the duration of each round trip in seconds."""
    acknowledgement = talk.ack()

    def broker() -> list[float]:
        placement.put_end()
        sock, _ = listening.accept()
        talk.answer(sock, confirms=True)
        return load.pong(sock, len(MESSAGE), acknowledgement, times)

    def client() -> list[float]:
        placement.put_end()
        sock = talk.connect(proxy.port)
        talk.select_confirms(sock)
        return load.ping(sock, MESSAGE, len(acknowledgement), times)

    return load.side_by_side(broker, client)[1]
