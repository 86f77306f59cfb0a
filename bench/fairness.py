"""Round trips of a second client while another client gives a broker a large amount of work, beside RabbitMQ.

The second client repeatedly sends itself a message through a separate queue. Counted are the round trips from the
request for the work until it is done, and those that would have begun while one of them was delayed: a broker that is
blocked for a second is late for every message due in that second.
"""

from __future__ import annotations

import json
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event as Signal
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    ChannelCloseOk,
    ChannelOpen,
    ExchangeDeclare,
    ExchangeDelete,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    TxCommit,
    TxSelect,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.broker import Broker
from amqproxy.broker.definitions import definitions_json
from bench import load, peers, talk
from bench.peers import Proxy
from bench.report import SUBJECT, Goal, Missing, Row, progress

MESSAGES = 1_000_000
QUEUES = 10_000
BODY = bytes(16)
SECTION = "Fairness: a second client's round trip meanwhile"
MILLISECOND = 1e-3
INTERVAL = 0.002
"""Seconds between two of the second client's messages."""

AFTERMATH = 0.5
"""Seconds after the answer that count as part of an event, since the broker may still be freeing memory."""

REFUSALS = 100
BACKTRACKING = 40 * "a"
PATTERN = "^(fair.*|(a+)+b)$"
"""The user's configure permission: it permits all queues used here, but makes a backtracking search take forever."""

DELAYED = 100_000
DELAY, PUBLISHED = 5.0, 10_000
"""Seconds until the delayed messages are due, extended by one second for each `PUBLISHED` messages to publish."""

PATIENCE = 300.0
"""Time limit for one event, in seconds."""

Q, DEAD, PING = "fair", "fair-dead", "fair-ping"
EXCHANGE = "fair-x"
AS_RABBITMQ = Goal(1.0, is_most=True)

_fork = get_context("fork")
_COUNT = struct.Struct(">I")


class Stage:
    """One broker, and a client that is about to give it work."""

    def __init__(self, broker: Proxy, stack: ExitStack) -> None:
        self.port = broker.port
        self.sock = talk.connect(broker.port)
        self.observer = talk.connect(broker.port)
        for sock in (self.sock, self.observer):
            sock.settimeout(PATIENCE)
            stack.callback(sock.close)

    def ask(self, *methods: Method) -> list[bytes]:
        return talk.ask(self.sock, methods)

    def send(self, *methods: Method) -> None:
        self.sock.sendall(b"".join(encode_method(1, method) for method in methods))

    def hang_up(self) -> None:
        """Close the connection, even if another process shares the socket."""
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()

    def answers(self, count: int) -> None:
        for _ in range(count):
            talk.read_payload(self.sock)

    def fill(self, count: int, properties: Properties = talk.PROPERTIES, *, exchange: str = "", key: str = Q) -> None:
        """Publish `count` messages; `until` waits for their arrival in the queue."""
        one = talk.publish(BODY, exchange=exchange, routing_key=key, properties=properties)
        for start in range(0, count, 1000):
            self.sock.sendall(one * min(1000, count - start))

    def depth(self, queue: str) -> int:
        """Return the number of ready messages, as the broker answers the observer."""
        (payload,) = talk.ask(self.observer, [QueueDeclare(queue=queue, passive=True)])
        (count,) = _COUNT.unpack_from(payload, 5 + payload[4])
        return int(count)

    def until(self, queue: str, count: int) -> None:
        """Wait until the queue has `count` ready messages."""
        end = time.monotonic() + PATIENCE
        while self.depth(queue) != count:
            if time.monotonic() > end:
                raise ValueError(f"{self.depth(queue)} messages in {queue}, and not {count}")
            time.sleep(0.02)

    def take_all(self, count: int) -> None:
        """Receive all ready messages without acknowledging any."""
        one = len(talk.delivery(BODY, routing_key=Q))
        self.ask(BasicConsume(queue=Q, consumer_tag=talk.CONSUMER))
        left = count * one
        buffer = memoryview(bytearray(load.BUFFER))
        while left > 0:
            left -= self.sock.recv_into(buffer, min(left, load.BUFFER))
        self.ask(BasicCancel(talk.CONSUMER))


class Event(NamedTuple):
    """Work for a broker: `prepare` sets up a stage for a count of messages or queues, `act` does the work fully."""

    name: str
    prepare: Callable[[Stage, int], None]
    act: Callable[[Stage, int], None]
    end: Callable[[Stage, int], None]
    size: int = MESSAGES


# --- events


def _queue(is_durable: bool = False, **arguments: str) -> QueueDeclare:
    table = Table({f"x-{name.replace('_', '-')}": value for name, value in arguments.items()})
    return QueueDeclare(queue=Q, durable=is_durable, arguments=table)


def _dying(stage: Stage, is_durable: bool = False) -> None:
    stage.ask(QueueDeclare(queue=DEAD, durable=is_durable))
    stage.ask(_queue(is_durable, dead_letter_exchange="", dead_letter_routing_key=DEAD))


def _end(stage: Stage, count: int) -> None:
    talk.ask(stage.observer, [QueueDelete(queue=Q), QueueDelete(queue=DEAD)])


def _prepare_expiry(stage: Stage, count: int) -> None:
    """Fill the queue behind a message that does not expire, so that all others have expired when it is consumed."""
    _dying(stage)
    stage.fill(1)
    stage.fill(count, Properties(content_type="application/octet-stream", expiration="1"))
    stage.until(Q, count + 1)


def _expire(stage: Stage, count: int) -> None:
    for _ in range(2):
        stage.send(BasicGet(queue=Q, no_ack=True))
    stage.until(DEAD, count)


def _filled(stage: Stage, count: int) -> None:
    stage.ask(_queue())
    stage.fill(count)
    stage.until(Q, count)


def _held(stage: Stage, count: int) -> None:
    _filled(stage, count)
    stage.take_all(count)


def _held_durable(stage: Stage, count: int) -> None:
    stage.ask(_queue(is_durable=True))
    stage.fill(count, talk.PERSISTENT)
    stage.until(Q, count)
    stage.take_all(count)


def _held_dying(stage: Stage, count: int) -> None:
    _dying(stage)
    stage.fill(count)
    stage.until(Q, count)
    stage.take_all(count)


def _requeue(stage: Stage, count: int) -> None:
    stage.send(BasicNack(0, True, True))
    stage.until(Q, count)


def _reject(stage: Stage, count: int) -> None:
    stage.send(BasicNack(0, True, False))
    stage.until(DEAD, count)


def _acknowledge(stage: Stage, count: int) -> None:
    stage.send(BasicAck(0, True))
    stage.ask(QueueDeclare(queue=Q, passive=True))


def _hang_up(stage: Stage, count: int) -> None:
    stage.hang_up()
    stage.until(Q, count)


def _purge(stage: Stage, count: int) -> None:
    stage.ask(QueuePurge(queue=Q))


def _delete(stage: Stage, count: int) -> None:
    stage.ask(QueueDelete(queue=Q))


def _begin_transaction(stage: Stage, count: int) -> None:
    stage.ask(_queue(), TxSelect())
    stage.fill(count)
    stage.ask(QueueDeclare(queue=Q, passive=True))


def _commit(stage: Stage, count: int) -> None:
    stage.ask(TxCommit())
    stage.until(Q, count)


def _names(count: int) -> list[str]:
    return [f"fair-{number:05}" for number in range(count)]


def _prepare_fanout(stage: Stage, count: int) -> None:
    names = _names(count)
    stage.ask(*(QueueDeclare(queue=name) for name in names))
    stage.ask(ExchangeDeclare(exchange=EXCHANGE, type="fanout"))
    stage.ask(*(QueueBind(queue=name, exchange=EXCHANGE) for name in names))


def _fan_out(stage: Stage, count: int) -> None:
    """Publish a hundred messages to every queue."""
    stage.fill(100, exchange=EXCHANGE, key="")
    for name in _names(count)[-1:]:
        stage.until(name, 100)


def _end_queues(stage: Stage, count: int) -> None:
    talk.ask(stage.observer, [ExchangeDelete(exchange=EXCHANGE)])
    talk.ask(stage.observer, [QueueDelete(queue=name) for name in _names(count)])


def _prepare_headers(stage: Stage, count: int) -> None:
    stage.ask(_queue(), ExchangeDeclare(exchange=EXCHANGE, type="headers"))
    bindings = [Table({"number": number, "kind": "all"}) for number in range(count)]
    stage.ask(*(QueueBind(queue=Q, exchange=EXCHANGE, arguments=each) for each in bindings))


def _route_by_headers(stage: Stage, count: int) -> None:
    headers = Table({"number": count // 2, "kind": "all", "more": "of it"})
    properties = Properties(content_type="application/octet-stream", delivery_mode=1, headers=headers)
    stage.fill(1000, properties, exchange=EXCHANGE)
    stage.until(Q, 1000)


def _end_headers(stage: Stage, count: int) -> None:
    talk.ask(stage.observer, [ExchangeDelete(exchange=EXCHANGE), QueueDelete(queue=Q)])


def _nothing(stage: Stage, count: int) -> None:
    """Prepare nothing."""


def _declare(stage: Stage, count: int) -> None:
    stage.send(*(QueueDeclare(queue=name) for name in _names(count)))
    stage.answers(count)


def _prepare_bindings(stage: Stage, count: int) -> None:
    stage.ask(_queue(), ExchangeDeclare(exchange=EXCHANGE, type="topic"))


def _bind(stage: Stage, count: int) -> None:
    stage.send(*(QueueBind(queue=Q, exchange=EXCHANGE, routing_key=f"{name}.*") for name in _names(count)))
    stage.answers(count)


def _unbind(stage: Stage, count: int) -> None:
    stage.send(*(QueueUnbind(queue=Q, exchange=EXCHANGE, routing_key=f"{name}.*") for name in _names(count)))
    stage.answers(count)


def _prepare_unbinding(stage: Stage, count: int) -> None:
    _prepare_bindings(stage, count)
    stage.ask(*(QueueBind(queue=Q, exchange=EXCHANGE, routing_key=f"{name}.*") for name in _names(count)))


def _prepare_exclusive(stage: Stage, count: int) -> None:
    stage.ask(*(QueueDeclare(queue=name, exclusive=True) for name in _names(count)))


def _lose_exclusive(stage: Stage, count: int) -> None:
    """Disconnect, and wait until the name of the last exclusive queue is free again."""
    stage.hang_up()
    last = QueueDeclare(queue=_names(count)[-1])
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with talk.connect(stage.port) as sock:
            try:
                talk.ask(sock, [last])
            except ValueError:
                time.sleep(0.02)
            else:
                talk.ask(sock, [QueueDelete(queue=last.queue)])
                return
    raise ValueError("exclusive queues outlive their connection")


def _keep(stage: Stage, count: int) -> None:
    """Clean up nothing, since everything is gone."""


def _ask_in_vain(stage: Stage, count: int) -> None:
    """Declare a queue whose name takes the user's pattern the longest search to reject, and reopen the channel."""
    for _ in range(count):
        with suppress(ValueError):
            stage.ask(QueueDeclare(queue=BACKTRACKING))
        stage.send(ChannelCloseOk())
        stage.ask(ChannelOpen())


REFUSAL = Event("refused by a backtracking pattern", _nothing, _ask_in_vain, _keep, REFUSALS)

EVENTS = (
    Event("expire into a DLX", _prepare_expiry, _expire, _end),
    Event("nack all, requeue", _held, _requeue, _end),
    Event("nack all, requeue, persistent", _held_durable, _requeue, _end, MESSAGES // 4),
    Event("nack all into a DLX", _held_dying, _reject, _end),
    Event("ack all", _held, _acknowledge, _end),
    Event("hang up, holding all", _held, _hang_up, _end),
    Event("purge", _filled, _purge, _end),
    Event("delete the queue", _filled, _delete, _end),
    Event("commit", _begin_transaction, _commit, _end),
    Event("fan out, 100 messages", _prepare_fanout, _fan_out, _end_queues, QUEUES),
    Event("headers bindings, 1,000 messages", _prepare_headers, _route_by_headers, _end_headers, QUEUES),
    Event("declare in one write", _nothing, _declare, _end_queues, QUEUES),
    Event("bind in one write", _prepare_bindings, _bind, _end_headers, QUEUES),
    Event("unbind in one write", _prepare_unbinding, _unbind, _end_headers, QUEUES),
    Event("hang up, exclusive queues", _prepare_exclusive, _lose_exclusive, _keep, QUEUES),
)


# --- round trips of the second client


class Felt(NamedTuple):
    """Duration of an event, and the round trips meanwhile, in seconds."""

    took: float
    trips: list[float]


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield four rows for each event, from a single round, since a million messages take long."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        brokers = []
        try:
            brokers.append(stack.enter_context(peers.rabbitmq()))
        except Missing as lack:
            yield str(lack)
        brokers.append(stack.enter_context(peers.broker(directory / "data")))
        for event in EVENTS:
            count = int(event.size * min(1.0, scale))
            progress(f"fairness: {event.name}, {count:,}")
            yield from _rows(event.name, count, {broker.name: _feel(broker, event, count) for broker in brokers})
    with tempfile.TemporaryDirectory() as empty:
        yield from _measure_refusals(Path(empty), int(REFUSALS * min(1.0, scale)))
        count = int(DELAYED * min(1.0, scale))
        progress(f"fairness: delayed messages, {count:,}")
        felt = {SUBJECT: _feel_delayed(Path(empty) / "data", count)}
        yield from _rows("delayed, due after a restart (RabbitMQ: by a plugin only)", count, felt)


def _measure_refusals(directory: Path, count: int) -> Iterator[Row]:
    """Measure refusals at separate brokers, whose only user has the backtracking pattern."""
    progress(f"fairness: {REFUSAL.name}, {count:,}")
    found = definitions_json.export(Broker())
    for permission in found["permissions"]:
        permission["configure"] = PATTERN
    file = directory / "definitions.json"
    file.write_text(json.dumps(found))
    felt = {}
    for start in (partial(peers.rabbitmq, file), partial(peers.broker, None, file)):
        with suppress(Missing), start() as broker:
            felt[broker.name] = _feel(broker, REFUSAL, count)
    yield from _rows(REFUSAL.name, count, felt)


def _feel_delayed(directory: Path, count: int) -> Felt:
    """Measure messages that an exchange holds on disk across a restart until all are due at once."""
    due = time.monotonic() + DELAY + count / PUBLISHED
    with peers.broker(directory) as broker, ExitStack() as stack:
        stage = Stage(broker, stack)
        arguments = Table({"x-delayed-type": "fanout"})
        stage.ask(
            _queue(is_durable=True),
            ExchangeDeclare(exchange=EXCHANGE, type="x-delayed-message", durable=True, arguments=arguments),
            QueueBind(queue=Q, exchange=EXCHANGE),
        )
        for start in range(0, count, 1000):
            headers = Table({"x-delay": int((due - time.monotonic()) / MILLISECOND)})
            properties = Properties(content_type="application/octet-stream", delivery_mode=2, headers=headers)
            stage.fill(min(1000, count - start), properties, exchange=EXCHANGE, key="")
        stage.ask(_queue(is_durable=True))
    with peers.broker(directory) as broker, ExitStack() as stack:
        return felt_during(Stage(broker, stack), lambda stage: stage.until(Q, count), due)


def _rows(name: str, count: int, felt: dict[str, Felt]) -> Iterator[Row]:
    figures: dict[str, Callable[[Felt], float]] = {
        f"{name}: {count:,}": lambda each: each.took,
        "  median": lambda each: percentile(each.trips, 50) / MILLISECOND,
        "  99th percentile": lambda each: percentile(each.trips, 99) / MILLISECOND,
        "  longest": lambda each: max(each.trips) / MILLISECOND,
    }
    others = tuple(each for each in felt if each != SUBJECT) or ("RabbitMQ",)
    for number, (text, figure) in enumerate(figures.items()):
        goal = AS_RABBITMQ if number > 1 else None
        values = {broker: [figure(each)] for broker, each in felt.items()}
        yield Row(SECTION, text, "ms" if number else "s", values, others, goal, less_is_better=True)


def percentile(values: list[float], percent: int) -> float:
    return quantiles(values, n=100, method="inclusive")[percent - 1] if len(values) > 1 else values[0]


def _feel(broker: Proxy, event: Event, count: int) -> Felt:
    with ExitStack() as stack:
        stage = Stage(broker, stack)
        event.prepare(stage, count)
        felt = felt_during(stage, lambda stage: event.act(stage, count))
        event.end(stage, count)
    return felt


def felt_during(stage: Stage, act: Callable[[Stage], None], when: float = 0.0, source: str = "") -> Felt:
    """Measure round trips during an act that begins at `when`; `source` is the second client's address."""
    with _pinging(stage.port, source) as stop:
        time.sleep(max(0.3, when - time.monotonic()))
        began = time.monotonic()
        act(stage)
        ended = time.monotonic()
        time.sleep(AFTERMATH)
        pings = stop()
    return Felt(ended - began, list(during(pings, began, ended + AFTERMATH)))


def during(pings: list[tuple[float, float]], began: float, ended: float) -> Iterator[float]:
    """Yield the round trips that overlap a period, and those that were due while one of them was delayed.

    `pings` are pairs of start and duration.
    """
    for start, trip in pings:
        end = start + trip
        while began <= end and start < end and start <= ended:
            yield end - start
            start += INTERVAL


@contextmanager
def _pinging(port: int, source: str) -> Iterator[Callable[[], list[tuple[float, float]]]]:
    """Run the second client in a separate process; yield a function that stops it and returns starts and durations."""
    ours, theirs = _fork.Pipe(duplex=False)
    is_ready, is_over = _fork.Event(), _fork.Event()
    process = _fork.Process(target=_ping, args=(port, source, is_ready, is_over, theirs), daemon=True)
    process.start()
    theirs.close()

    def stop() -> list[tuple[float, float]]:
        is_over.set()
        found: list[tuple[float, float]] = ours.recv()
        return found

    try:
        if not is_ready.wait(talk.DEADLINE):
            raise ValueError("the second client never came")
        yield stop
    finally:
        process.kill()
        process.join()
        ours.close()


def _ping(port: int, source: str, is_ready: Signal, is_over: Signal, pipe: Connection) -> None:
    sock = talk.connect(port, source)
    sock.settimeout(PATIENCE)
    talk.ask(sock, [QueueDeclare(queue=PING, exclusive=True)])
    talk.ask(sock, [BasicConsume(queue=PING, consumer_tag=talk.CONSUMER, no_ack=True)])
    message = talk.publish(BODY, routing_key=PING)
    size = len(talk.delivery(BODY, routing_key=PING))
    pings = []
    is_ready.set()
    while not is_over.is_set():
        began = time.monotonic()
        sock.sendall(message)
        talk.read_exactly(sock, size)
        trip = time.monotonic() - began
        pings.append((began, trip))
        time.sleep(max(0.0, INTERVAL - trip))
    pipe.send(pings)
    sock.close()
