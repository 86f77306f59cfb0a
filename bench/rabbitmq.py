"""Proxies in front of a real RabbitMQ: one publisher, and one consumer that does not acknowledge."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from multiprocessing import get_context
from statistics import median

from bench import latency, load, talk
from bench.peers import Proxy, contenders, rabbitmq
from bench.report import Goal, Missing, Row, in_turns, progress

MESSAGES = 150_000
BODY = bytes(100)
GOAL = Goal(0.97)
ADDED_GOAL = Goal(50.0, is_most=True)


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield rows for throughput and for the round trip from publish to confirm."""
    try:
        with rabbitmq() as node, contenders(node.port, with_threads=False) as (proxies, missing):
            yield from missing
            yield from _measure(f"In front of {node.name}", proxies, rounds, scale)
    except Missing as lack:
        yield str(lack)


def _measure(section: str, proxies: list[Proxy], rounds: int, scale: float) -> Iterator[Row]:
    count = int(MESSAGES * scale)
    progress("rabbitmq: publish and consume")
    jobs = {proxy.name: partial(throughput, proxy, count) for proxy in proxies}
    for job in jobs.values():
        job()
    figures = in_turns(jobs, rounds)
    yield Row(section, "publish and consume", "1000/s", figures, ("no proxy",), GOAL)
    progress("rabbitmq: round trips to a confirm")
    times = max(200, int(2000 * scale))
    trips = in_turns({proxy.name: partial(round_trip, proxy, times) for proxy in proxies}, rounds)
    yield Row(section, "publish to confirm, median", "µs", trips)
    added = latency.added(trips)
    yield Row(section, "added median", "µs", added, goal=ADDED_GOAL, less_is_better=True)


def throughput(proxy: Proxy, count: int) -> float:
    """Return thousands of messages a second, from the first publish to the last consumption."""
    data = load.fill(talk.publish(BODY))
    each = data.count(talk.publish(BODY))
    times = max(1, count // each)
    is_ready = get_context("fork").Event()

    def consumer() -> list[float]:
        sock = talk.connect(proxy.port)
        talk.consume(sock, declare=True)
        is_ready.set()
        left = times * each * len(talk.delivery(BODY))
        buffer = memoryview(bytearray(load.BUFFER))
        while left > 0:
            got = sock.recv_into(buffer)
            left -= got
            if not got or left < 0 or (not left and buffer[got - 1] != 0xCE):
                raise ValueError(f"the deliveries ended {left} bytes too early")
        ended = time.monotonic()
        sock.sendall(talk.CLOSE)
        talk.read_exactly(sock, len(talk.CLOSE_OK))
        return [ended]

    def publisher() -> list[float]:
        sock = talk.connect(proxy.port)
        if not is_ready.wait(talk.DEADLINE):
            raise ValueError("the consumer never came")
        return load.flood([sock], data, times)

    (ended,), (began,) = load.side_by_side(consumer, publisher)
    return times * each / (ended - began) / 1000


def round_trip(proxy: Proxy, times: int) -> float:
    """Return the median time, in microseconds, from an unroutable publish to its confirm."""

    def publisher() -> list[float]:
        sock = talk.connect(proxy.port)
        talk.select_confirms(sock)
        nowhere = talk.publish(BODY, routing_key="nowhere")
        return load.ping(sock, nowhere, len(talk.ack()), times)

    return median(load.side_by_side(publisher)[0]) / latency.MICROSECOND
