"""The integrated broker beside Qpid Broker-J over AMQP 0-10: the same messages, alternately, from first to last.

Neither broker keeps anything on disk. The figures are messages a second by the clock, and the broker's CPU time for
each message.
"""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from amqproxy.amqp010.commands import QueueDeclare, QueueDelete, QueueQuery
from amqproxy.amqp010.results import QueueQueryResult
from bench import load, peers
from bench.peers import Proxy
from bench.report import Goal, Missing, Row, in_turns, progress
from bench.talk import DEADLINE
from bench.talk_0_10 import MARK, RECEIVE, Session, transfer, transfers_of_jms

GOAL = Goal(2.0)
CPU_GOAL = Goal(0.5, is_most=True)
QUEUE = "bench"
AT_ONCE = 256 * 1024
BEHIND = 20_000
"""Maximum lead of a publisher over the consumer, in messages: a queue of a million would be another measurement."""
COMPLETED = 1000
"""Transfers that a consumer completes at once if it accepts none."""
MOST = 60_000
"""Messages of one session: beyond 65,536, Broker-J was seen to stop."""
MICROSECOND = 1e-6


class Flow(NamedTuple):
    """Traffic of one measurement; the consumer and the broker accept `accepts` messages at once, 0 for none.

    Messages `of_jms` each have a message-id and a timestamp, like those of JMS clients. Without a consumer, all
    messages are in the queue at the end; without a publisher, they are in it at the beginning.
    """

    name: str
    size: int
    messages: int
    accepts: int = 0
    publishes: bool = True
    consumes: bool = True
    of_jms: bool = False


FLOWS = (
    Flow("published and completed, 100 B", 100, MOST, consumes=False),
    Flow("published and accepted, 100 B", 100, MOST, 1, consumes=False),
    Flow("consumed, no accept, 100 B", 100, MOST, publishes=False),
    Flow("consumed, accepts of 50, 100 B", 100, MOST, 50, publishes=False),
    Flow("both, no accept, 100 B", 100, MOST),
    Flow("both, no accept, 1 KiB", 1024, MOST),
    Flow("both, accepts of 50, 100 B", 100, MOST, 50),
    Flow("both, accepts of 1, 100 B", 100, MOST, 1),
    Flow("both, headers as of JMS, 100 B", 100, MOST, of_jms=True),
)


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield two rows for each flow."""
    try:
        with broker_j() as theirs, peers.broker() as ours:
            vhosts = {theirs: "test", ours: "/"}
            for flow in FLOWS:
                progress(f"broker 0-10: {flow.name}")
                yield from _rows(vhosts, flow._replace(messages=int(flow.messages * scale) // 100 * 100), rounds)
    except Missing as lack:
        yield str(lack)


@contextmanager
def broker_j() -> Iterator[Proxy]:
    """Start Qpid Broker-J, which the tests download."""
    try:
        import pytest

        from tests.qpid.broker_j import BrokerJ
    except ImportError as error:
        raise Missing(f"Broker-J is started as the tests do it: {error}") from error
    with tempfile.TemporaryDirectory() as directory:
        try:
            broker = BrokerJ(Path(directory), memory="1g")
        except (pytest.skip.Exception, pytest.fail.Exception) as error:
            raise Missing(str(error)) from error
        try:
            yield Proxy("Broker-J", broker.port, broker.pid)
        finally:
            broker.kill()


def _rows(vhosts: dict[Proxy, str], flow: Flow, rounds: int) -> Iterator[Row]:
    cpu: dict[str, list[float]] = {broker.name: [] for broker in vhosts}
    jobs = {broker.name: partial(rate, broker, vhost, flow, cpu[broker.name]) for broker, vhost in vhosts.items()}
    for _ in range(3):  # warm-up: Java compiles hot code, and allocators need some time to settle
        for job in jobs.values():
            job()
    for figures in cpu.values():
        figures.clear()
    yield Row("Integrated broker, AMQP 0-10", flow.name, "k/s", in_turns(jobs, rounds), ("Broker-J",), GOAL)
    peer = ("Broker-J",)
    yield Row("Integrated broker, AMQP 0-10", f"{flow.name}, CPU", "µs", cpu, peer, CPU_GOAL, less_is_better=True)


def rate(broker: Proxy, vhost: str, flow: Flow, cpu: list[float]) -> float:
    """Return thousands of messages a second; append the broker's CPU microseconds per message to `cpu`."""
    control = Session(broker.port, vhost)
    control.call(QueueDeclare(QUEUE, auto_delete=False))
    context = get_context("fork")
    taken, is_ready = context.Value("q", 0), context.Event()
    publish = partial(_publish, broker, vhost, flow, is_ready.wait, taken)
    consume = partial(_consume, broker, vhost, flow, is_ready.set, taken)
    if not (flow.publishes and flow.consumes):
        is_ready.set()
        taken.value = flow.messages  # without a consumer, the publisher does not wait
    if not flow.publishes:
        load.side_by_side(publish)
    before = _seconds(broker)
    if not flow.consumes:
        ((began, ended),) = load.side_by_side(publish)
    elif not flow.publishes:
        ((began, ended),) = load.side_by_side(consume)
    else:
        (_, ended), (began, _) = load.side_by_side(consume, publish)
    cpu.append((_seconds(broker) - before) / flow.messages / MICROSECOND)
    left = control.call(QueueQuery(QUEUE))
    control.call(QueueDelete(QUEUE))
    control.sock.close()
    if not isinstance(left, QueueQueryResult) or left.message_count != (0 if flow.consumes else flow.messages):
        raise ValueError(f"{flow.name}: {left} at {broker.name}")
    return flow.messages / (ended - began) / 1000


def _seconds(broker: Proxy) -> float:
    times = psutil.Process(broker.pid).cpu_times()
    return times.user + times.system


def _publish(broker: Proxy, vhost: str, flow: Flow, wait: Callable[[float], bool], taken: Any) -> list[float]:
    """Publish, and return the times when the first message was sent and when the last was completed."""
    session = Session(broker.port, vhost)
    one = transfer(QUEUE, flow.size, accepts=flow.accepts > 0)
    count = max(1, AT_ONCE // len(one))
    data = memoryview(one * count)
    if flow.of_jms:
        data = memoryview(transfers_of_jms(QUEUE, flow.size, flow.messages))
    size = len(data) // (flow.messages if flow.of_jms else count)
    if not wait(DEADLINE):
        raise ValueError("the consumer never came")
    began = time.monotonic()
    reading = threading.Thread(target=session.wait_completed, args=(session.sent + flow.messages + 1,))
    reading.start()
    sent = 0
    while sent < flow.messages:
        while sent - taken.value > BEHIND:
            time.sleep(0.0002)
        some = min(count, flow.messages - sent)
        start = sent if flow.of_jms else 0
        session.sock.sendall(data[start * size : (start + some) * size])
        sent += some
    session.sync()
    reading.join(DEADLINE)
    ended = time.monotonic()
    if reading.is_alive():
        raise ValueError(f"{session.completed} of {sent} were completed")
    session.sock.close()
    return [began, ended]


def _consume(broker: Proxy, vhost: str, flow: Flow, ready: Callable[[], None], taken: Any) -> list[float]:
    """Consume, and return the times of the subscription and of the last message's arrival."""
    session = Session(broker.port, vhost)
    began = time.monotonic()
    session.subscribe(QUEUE, accepts=flow.accepts > 0)
    ready()
    rest = b""
    count = done = 0
    while count < flow.messages:
        data = session.sock.recv(RECEIVE)
        if not data:
            raise ValueError("the broker has hung up")
        data = rest + data
        count += data.count(MARK)
        rest = data[-(len(MARK) - 1) :]
        taken.value = count
        step = flow.accepts or COMPLETED
        answers = []
        while count - done >= step:
            first = session.first + done
            answers.append(session.completion(first, first + step - 1, accepts=flow.accepts > 0))
            done += step
        session.sock.sendall(b"".join(answers))
    ended = time.monotonic()
    session.sock.shutdown(socket.SHUT_WR)
    while session.sock.recv(RECEIVE):
        pass  # until the broker has processed the accepts and closes, before the connection is lost
    session.sock.close()
    return [began, ended]
