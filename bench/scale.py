"""Very many connections and queues at the integrated broker: the time they take, and their memory."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles

import psutil

from amqproxy.amqp091.methods import BasicConsume, QueueBind, QueueDeclare, QueueDelete
from bench import load, peers, talk
from bench.report import SUBJECT, Goal, Row, progress

CONNECTIONS = 5_000
QUEUES = 50_000
ROUND_TRIPS = 2_000
KIB = 1024
MICROSECOND = 1e-6
BODY = bytes(100)
SECTION = "Integrated broker, scale"
SECONDS = Goal(60.0, is_most=True)
TRIP = Goal(1000.0, is_most=True)


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield rows for durable queues on disk, a client for each of the first of them, and a restart of the broker."""
    queues, connections = int(QUEUES * min(1.0, scale * 2)), int(CONNECTIONS * min(1.0, scale * 2))
    names = [f"scale-{number:06}" for number in range(queues)]
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory, "data")
        with peers.broker(data) as broker, ExitStack() as stack:
            process = psutil.Process(broker.pid)
            sock = stack.enter_context(talk.connect(broker.port))
            talk.select_confirms(sock)

            progress(f"scale: {queues:,} durable queues")
            before, began = process.memory_info().rss, time.monotonic()
            talk.ask(sock, [QueueDeclare(queue=name, durable=True) for name in names])
            yield _row(f"declare {queues:,} queues", "s", time.monotonic() - began, SECONDS)
            yield _row("  each", "KiB", (process.memory_info().rss - before) / queues / KIB)

            progress(f"scale: {connections:,} connections, each with a consumer")
            before, began = process.memory_info().rss, time.monotonic()
            consumers = [stack.enter_context(talk.connect(broker.port)) for _ in range(connections)]
            for consumer, name in zip(consumers, names, strict=False):
                talk.ask(consumer, [BasicConsume(queue=name, consumer_tag=talk.CONSUMER, no_ack=True)])
            yield _row(f"open {connections:,} connections", "s", time.monotonic() - began, SECONDS)
            yield _row("  each", "KiB", (process.memory_info().rss - before) / connections / KIB)

            with talk.connect(broker.port) as another:
                talk.select_confirms(another)
                nowhere = talk.publish(BODY, routing_key="nowhere")
                trips = load.ping(another, nowhere, len(talk.ack()), ROUND_TRIPS)
            yield _row("publish to confirm, median", "µs", median(trips) / MICROSECOND, TRIP)
            yield _row("publish to confirm, 99th percentile", "µs", quantiles(trips, n=100)[98] / MICROSECOND)

            progress("scale: a message to every one")
            size = len(talk.delivery(BODY, routing_key=names[0]))
            began = time.monotonic()
            sock.sendall(b"".join(talk.publish(BODY, routing_key=name) for name in names[:connections]))
            for consumer in consumers:
                talk.read_exactly(consumer, size)
            yield _row(f"a message to {connections:,} consumers", "s", time.monotonic() - began)

            began = time.monotonic()
            for consumer in consumers:
                consumer.close()
            with talk.connect(broker.port) as another:
                talk.ask(another, [QueueDeclare(queue="after")])
            yield _row("all gone at once, till the next answer", "s", time.monotonic() - began)

        progress(f"scale: start with {queues:,} durable queues")
        began = time.monotonic()
        with peers.broker(data) as broker, talk.connect(broker.port) as sock:
            talk.ask(sock, [QueueDeclare(queue=names[-1], passive=True)])
            yield _row(f"start with {queues:,} queues", "s", time.monotonic() - began, SECONDS)
            began = time.monotonic()
            talk.ask(sock, [QueueBind(queue=name, exchange="amq.topic", routing_key=f"all.{name}") for name in names])
            yield _row(f"bind {queues:,} queues", "s", time.monotonic() - began, SECONDS)
            began = time.monotonic()
            talk.ask(sock, [QueueDelete(queue=name) for name in names])
            yield _row(f"delete {queues:,} queues", "s", time.monotonic() - began, SECONDS)


def _row(name: str, unit: str, figure: float, goal: Goal | None = None) -> Row:
    return Row(SECTION, name, unit, {SUBJECT: [figure]}, goal=goal, less_is_better=True)
