"""A client that publishes and waits for the confirm, again and again, in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event as Signal
from statistics import quantiles

from amqproxy.amqp091.methods import QueueDeclare
from bench import talk

INTERVAL = 0.002
"""Seconds between two publishes."""

QUEUE = "beside"

_fork = get_context("fork")


class RoundTrips:
    """The seconds of each round trip of one block of work; empty until the block ends."""

    def __init__(self) -> None:
        self.times: list[float] = []

    @property
    def p99(self) -> float:
        return quantiles(self.times, n=100)[98]

    @property
    def longest(self) -> float:
        return max(self.times)

    def __str__(self) -> str:
        """Return median, p99, p99.9 and the longest, in milliseconds."""
        parts = quantiles(self.times, n=1000)
        found = (parts[499], parts[989], parts[998], self.longest)
        return " · ".join(f"{each * 1000:.1f}" for each in found) + f" ms ({len(self.times)})"


@contextmanager
def confirms(port: int) -> Iterator[RoundTrips]:
    """Publish and wait for confirms while the block runs."""
    found = RoundTrips()
    ours, theirs = _fork.Pipe(duplex=False)
    is_ready, is_over = _fork.Event(), _fork.Event()
    process = _fork.Process(target=_publish, args=(port, is_ready, is_over, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        if not is_ready.wait(talk.DEADLINE):
            raise ValueError("the client beside never came")
        yield found
        is_over.set()
        found.times = ours.recv()
    finally:
        process.kill()
        process.join()
        ours.close()


def _publish(port: int, is_ready: Signal, is_over: Signal, pipe: Connection) -> None:
    sock = talk.connect(port)
    talk.select_confirms(sock)
    talk.ask(sock, [QueueDeclare(queue=QUEUE, exclusive=True)])
    message = talk.publish(bytes(100), routing_key=QUEUE)
    size = len(talk.ack())
    times = []
    is_ready.set()
    while not is_over.is_set():
        began = time.perf_counter()
        sock.sendall(message)
        talk.read_exactly(sock, size)
        times.append(time.perf_counter() - began)
        time.sleep(INTERVAL)
    pipe.send(times)
    sock.close()
