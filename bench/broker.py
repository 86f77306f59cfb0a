"""The integrated broker beside RabbitMQ: the same messages, alternately, from first publish to last consumption.

The figures are thousands of copies a second. Both brokers keep durable messages on the same disk. Queues are empty
before and after every round.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import psutil

from amqproxy.amqp091.methods import QueueDeclare, QueueDelete
from bench import load, peers, talk
from bench.peers import Proxy
from bench.report import SUBJECT, Goal, Missing, Row, in_turns, progress
from bench.traffic import Flow, chunks, names, publish, rate, topology

GOAL = Goal(2.0)
WAITING = 1_000_000
WAITING_BODY = 100
WAITING_GOAL = Goal(300.0, is_most=True)
OPENING_GOAL = Goal(5.0, is_most=True)
MICROSECOND = 1e-6
KIB = 1024

ACKED = 50
"""Messages that a client acknowledges at once, in flows with multiple acknowledgements."""

DEVICES = 10_000
SENSORS = 20


def _topics() -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Return bindings, one in five exact and the others with wildcards, and far more keys, each of which fits one."""
    queues = names(10)
    bindings = []
    keys = []
    for device in range(DEVICES):
        pattern = (f"eu.d{device:04}.*", f"*.d{device:04}.#", f"eu.d{device:04}.s00", f"#.d{device:04}.*", "eu.d%04d.#")
        chosen = pattern[device % 5]
        bindings.append((queues[device // 5 % 10], chosen % device if "%" in chosen else chosen))
        for sensor in range(SENSORS):
            keys.append(f"eu.d{device:04}.s{0 if device % 5 == 2 else sensor:02}")
    # Shuffled, so that neither broker has seen a key recently: the step is coprime to their number.
    return tuple(bindings), tuple(keys[(number * 7_919) % len(keys)] for number in range(len(keys)))


BINDINGS, KEYS = _topics()
TEN, HUNDRED = names(10), names(100)

FLOWS = (
    Flow("transient, auto-ack, 16 B", 16, 300_000),
    Flow("transient, auto-ack, 1 KiB", KIB, 200_000),
    Flow("transient, auto-ack, 64 KiB", 64 * KIB, 30_000),
    Flow("transient, 10 queues, 1 KiB", KIB, 200_000, TEN, connections=2),
    Flow("transient, 100 queues, 1 KiB", KIB, 200_000, HUNDRED, connections=4),
    Flow("acks of 50, prefetch 1000, 16 B", 16, 200_000, ack_every=ACKED),
    Flow("acks of 1, prefetch 1000, 1 KiB", KIB, 100_000, ack_every=1),
    Flow("acks of 50, 10 queues, 1 KiB", KIB, 100_000, TEN, ack_every=ACKED, connections=2),
    Flow("acks of 1, 100 queues, 16 B", 16, 150_000, HUNDRED, ack_every=1, connections=4),
    Flow("persistent, confirms, 16 B", 16, 60_000, ack_every=ACKED, is_durable=True, window=2000),
    Flow("persistent, confirms, 1 KiB", KIB, 60_000, ack_every=ACKED, is_durable=True, window=2000),
    Flow("persistent, confirms, 64 KiB", 64 * KIB, 6_000, ack_every=ACKED, is_durable=True, window=200),
    Flow(
        "persistent, 10 queues, 1 KiB", KIB, 60_000, TEN, ack_every=ACKED, is_durable=True, window=1000, connections=2
    ),
    Flow(
        "persistent, 100 queues, 1 KiB",
        KIB,
        60_000,
        HUNDRED,
        ack_every=ACKED,
        is_durable=True,
        window=500,
        connections=4,
    ),
    Flow("persistent, no consumer, 1 KiB", KIB, 60_000, is_durable=True, window=2000, consumes=False),
    Flow(
        "fanout to 10 queues, 1 KiB",
        KIB,
        20_000,
        TEN,
        exchange="bench-fanout",
        exchange_type="fanout",
        bindings=tuple((queue, "") for queue in TEN),
        keys=("bench",),
        copies=10,
    ),
    Flow(
        "topic, 10,000 bindings, 16 B",
        16,
        100_000,
        TEN,
        exchange="bench-topic",
        exchange_type="topic",
        bindings=BINDINGS,
        keys=KEYS,
    ),
)


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield a row for each flow, then the memory cost of waiting messages and the start with stored ones."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        brokers = []
        try:
            brokers.append(stack.enter_context(peers.rabbitmq()))
        except Missing as lack:
            yield str(lack)
        brokers.append(stack.enter_context(peers.broker(directory / "data")))
        for flow in FLOWS:
            progress(f"broker: {flow.name}")
            yield _row(brokers, flow._replace(messages=_share(flow, scale)), rounds)
        yield _waiting(brokers[:-1], int(WAITING * scale))
    yield _opening(int(WAITING * scale))


def _share(flow: Flow, scale: float) -> int:
    """Return the number of messages to send, a multiple that all queues and connections share evenly."""
    step = 100 * flow.connections
    return max(step, int(flow.messages * scale) // step * step)


def _row(brokers: list[Proxy], flow: Flow, rounds: int) -> Row:
    with ExitStack() as stack:
        for broker in brokers:
            stack.enter_context(topology(broker, flow))
        jobs = {broker.name: partial(rate, broker, flow) for broker in brokers}
        for _ in range(2):  # warm-up: RabbitMQ's scheduler and both allocators need some time to settle
            for job in jobs.values():
                job()
        before = {broker.name: _seconds(broker) for broker in brokers}
        figures = in_turns(jobs, rounds)
        copies = flow.messages * flow.copies * rounds
        each = {broker.name: (_seconds(broker) - before[broker.name]) / copies / MICROSECOND for broker in brokers}
    note = "CPU " + " to ".join(f"{each[broker.name]:.1f}" for broker in reversed(brokers)) + " µs"
    others = tuple(broker.name for broker in brokers[:-1]) or ("RabbitMQ",)
    return Row("Integrated broker", flow.name, "k/s", figures, others, GOAL, note)


def _seconds(broker: Proxy) -> float:
    """Return the CPU seconds that a broker has used."""
    times = psutil.Process(broker.pid).cpu_times()
    return times.user + times.system


# --- waiting messages


def _waiting(others: list[Proxy], count: int) -> Row:
    """Measure the memory in bytes of each message that waits in a queue, beyond its body."""
    progress(f"broker: {count:,} messages waiting")
    figures = {}
    with peers.broker() as ours:
        for broker in (*others, ours):
            process = psutil.Process(broker.pid)
            with _filled(broker, 1000, "before", is_durable=False):  # first messages cost more
                before = process.memory_info().rss
                with _filled(broker, count, "bench", is_durable=False):
                    figures[broker.name] = [(process.memory_info().rss - before) / count - WAITING_BODY]
    name = f"each of {count:,} waiting"
    return Row("Messages that wait", name, "B", figures, goal=WAITING_GOAL, less_is_better=True)


def _opening(count: int) -> Row:
    """Measure the seconds until a restarted broker answers with the number of messages in its queue."""
    progress(f"broker: {count:,} messages stored, and found again")
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory, "data")
        with peers.broker(data) as broker:
            _fill(broker, count, "bench", is_durable=True)
        began = time.monotonic()
        with peers.broker(data) as broker, talk.connect(broker.port) as sock:
            (answer,) = talk.ask(sock, [QueueDeclare(queue="bench", passive=True)])
            seconds = time.monotonic() - began
    if int.from_bytes(answer[-8:-4]) != count:
        raise ValueError(f"of {count} messages there are {int.from_bytes(answer[-8:-4])}")
    figures = {SUBJECT: [seconds]}
    return Row("Messages that wait", f"start with {count:,}", "s", figures, goal=OPENING_GOAL, less_is_better=True)


@contextmanager
def _filled(broker: Proxy, count: int, queue: str, *, is_durable: bool) -> Iterator[None]:
    _fill(broker, count, queue, is_durable=is_durable)
    yield
    with talk.connect(broker.port) as sock:
        talk.ask(sock, [QueueDelete(queue=queue)])


def _fill(broker: Proxy, count: int, queue: str, *, is_durable: bool) -> None:
    flow = Flow("", WAITING_BODY, count, (queue,), is_durable=is_durable, window=2000, consumes=False)
    with talk.connect(broker.port) as sock:
        talk.ask(sock, [QueueDeclare(queue=queue, durable=is_durable)])
    load.side_by_side(partial(_published, broker, flow))


def _published(broker: Proxy, flow: Flow) -> list[float]:
    with talk.connect(broker.port) as sock:
        talk.select_confirms(sock)
        return [publish(sock, chunks(flow), flow.messages, flow.window)]
