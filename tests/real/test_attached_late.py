"""Readers attached to a proxy whose clients have run for an hour, and which miss frames three times.

Of every message after a snapshot they know the outcome, and the queue of each delivery. An hour is as many messages as
a client sends in it at ten a second.
"""

from __future__ import annotations

import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from amqproxy.amqp010.commands import MessageAccept, MessageTransfer, QueueDeclare
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.broker import serve_in_thread
from tests.real.amqp010_peer import Amqp010Peer
from tests.real.control_reader import DashboardReader
from tests.real.pika_connection import connected
from tests.real.poll import until
from tests.real.proxy import Proxy, StartProxy, command

pytestmark = [pytest.mark.real, pytest.mark.once]

HOUR = 36_000
"""Messages of an hour."""

MINUTES = 3_000
"""Messages of a shorter history, which has all that the hour has, but its length."""

CONFIRMED = 500
"""Publishes of the history whose confirms are awaited one by one."""

LOSSES = 3
MESSAGES = 60
"""Messages that are checked after each loss."""

RING = 1 << 20
"""Bytes of the ring that readers lag behind."""

BULK = 1_500
"""Messages that pass while a reader reads nothing: more than the ring and the reader's socket have room for."""

DEADLINE = 900
"""Seconds for a test on a busy machine: a dashboard that was too slow is shown fewer connections for a while."""

BODY = b"message "
"""Beginning of the bodies that are checked."""

WAIT = 60.0
"""Seconds in which a message has to pass."""

Outcome = tuple[str, str, str, str | None]
"""Body, type, outcome and queue of a record."""


class Clients(ABC):
    """A publisher that waits for confirms, and a consumer of its queue that acknowledges each message."""

    def __init__(self) -> None:
        self.sent = 0

    @abstractmethod
    def live(self, stack: ExitStack, proxy: Proxy, history: int) -> None:
        """Connect, and exchange as many messages as the history has."""

    @abstractmethod
    def exchange(self, bodies: list[str]) -> None:
        """Publish messages, await their confirms, and consume them."""

    def send(self, count: int) -> set[str]:
        """Exchange messages, and return their bodies, by which readers' records of them are found."""
        bodies = [f"{BODY.decode()}{self.sent + number}." for number in range(count)]
        self.sent += count
        self.exchange(bodies)
        return set(bodies)


class PikaClients(Clients):
    def live(self, stack: ExitStack, proxy: Proxy, history: int) -> None:
        self.publisher = stack.enter_context(connected(proxy, heartbeat=0))
        self.consumer = stack.enter_context(connected(proxy, heartbeat=0))
        self.publishing, self.consuming = self.publisher.channel(), self.consumer.channel()
        self.publishing.queue_declare("orders")
        self.got = 0
        self.consuming.basic_qos(prefetch_count=500)
        self.consuming.basic_consume("orders", self._consume)
        quick = self.publisher.channel()
        for start in range(0, history - CONFIRMED, 500):
            for _ in range(500):
                quick.basic_publish("", "orders", b"old")
            self._await(start + 500)
        self.publishing.confirm_delivery()
        self.exchange(["old"] * CONFIRMED)

    def _consume(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self.got += 1
        channel.basic_ack(method.delivery_tag)

    def exchange(self, bodies: list[str]) -> None:
        expected = self.got + len(bodies)
        for body in bodies:
            self.publishing.basic_publish("", "orders", body.encode())
        self._await(expected)

    def _await(self, count: int) -> None:
        end = time.monotonic() + WAIT
        while self.got < count and time.monotonic() < end:
            self.consumer.process_data_events(0.01)
        assert self.got == count
        self.consumer.process_data_events(0)


class Amqp010Clients(Clients):
    def live(self, stack: ExitStack, proxy: Proxy, history: int) -> None:
        self.publisher = stack.enter_context(Amqp010Peer(proxy.port))
        self.consumer = stack.enter_context(Amqp010Peer(proxy.port))
        self.publisher.attach(1, b"publishing")
        self.consumer.attach(1, b"consuming")
        self.publisher.send(1, QueueDeclare("orders", sync=True))
        self.publisher.expect("session.completed")
        self.consumer.subscribe(1, "orders", "consumer")
        self.got = 0
        for _ in range(0, history, 200):
            self.exchange(["old"] * 200)

    def exchange(self, bodies: list[str]) -> None:
        for body in bodies:
            self.publisher.publish(1, body.encode(), key="orders")
        for _ in bodies:
            transfer = self.consumer.expect("message.transfer").method
            assert isinstance(transfer, MessageTransfer)
            self.consumer.send(1, MessageAccept(SequenceSet([(self.got, self.got)])))
            self.got += 1
        self.publisher.expect("session.completed")
        self.publisher.received.clear()
        self.consumer.received.clear()


class Tail:
    """`amqproxy tail --messages --json`; `lost` is how often it has missed frames."""

    def __init__(self, directory: Path, socket: Path) -> None:
        self._out, self._log = directory / "tail.jsonl", directory / "tail.log"
        self._read = 0
        self._messages: list[dict[str, Any]] = []
        words = [*command(), "tail", "--messages", "--json", "--body=40", "--socket", str(socket)]
        with self._out.open("wb") as out, self._log.open("wb") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=log)

    @property
    def lost(self) -> int:
        return self._log.read_text().count("skipped")

    def messages(self, containing: bytes) -> Iterator[dict[str, Any]]:
        """Yield the messages that were printed so far whose line is `containing` some text."""
        data = self._out.read_bytes()
        lines = data[self._read : data.rfind(b"\n") + 1]
        self._read += len(lines)
        self._messages += [msgspec.json.decode(line) for line in lines.splitlines() if containing in line]
        yield from self._messages

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Readers:
    """The two readers, and what they know of messages."""

    def __init__(self, directory: Path, socket: Path) -> None:
        self.tail = Tail(directory, socket)
        self.dashboard = DashboardReader(socket)

    def close(self) -> None:
        """Stop reading from a proxy that is gone."""
        self.tail.kill()
        self.dashboard.join()
        self.dashboard.client.close()

    def outcomes(self, bodies: set[str]) -> list[set[Outcome]]:
        """Return what each reader says of these messages, without those whose outcome is pending."""
        return [
            {
                (each["body"], each["type"], each["outcome"], each.get("queue"))
                for each in reader.messages(BODY)
                if each.get("body") in bodies and each["outcome"] != "pending"
            }
            for reader in (self.tail, self.dashboard)
        ]

    @property
    def lost(self) -> tuple[int, int]:
        """Return the number of frames that each reader has lost so far."""
        for _ in self.dashboard.messages(BODY):
            pass
        return self.tail.lost, self.dashboard.lost

    @contextmanager
    def losing(self) -> Iterator[None]:
        """Read nothing meanwhile."""
        self.tail.pause()
        self.dashboard.may_read.clear()
        try:
            yield
        finally:
            self.tail.go_on()
            self.dashboard.may_read.set()


def known(bodies: set[str]) -> set[Outcome]:
    """Return the expected outcomes of messages with these bodies."""
    published = {(body, "publish", "confirmed", None) for body in bodies}
    return published | {(body, "deliver", "acked", "orders") for body in bodies}


CLIENTS = pytest.mark.parametrize("clients", [PikaClients, Amqp010Clients], ids=["0-9-1", "0-10"])


@pytest.fixture(autouse=True)
def more_time(deadline: None) -> None:
    """Wait longer than other tests with real clients do."""
    signal.alarm(DEADLINE)


@pytest.mark.soak
@pytest.mark.timeout(DEADLINE)
@CLIENTS
def test_after_a_snapshot_no_message_is_unknown(
    clients: type[Clients], start_proxy: StartProxy, tmp_path: Path
) -> None:
    attach(clients(), start_proxy, tmp_path, MINUTES)


@pytest.mark.soak
@pytest.mark.timeout(DEADLINE)
@CLIENTS
def test_nor_after_an_hour(clients: type[Clients], start_proxy: StartProxy, tmp_path: Path) -> None:
    attach(clients(), start_proxy, tmp_path, HOUR)


def attach(clients: Clients, start_proxy: StartProxy, directory: Path, history: int) -> None:
    """Attach readers to a proxy after a history of its clients, and compare what they know with what there is."""
    with serve_in_thread() as broker:
        proxy: Proxy = start_proxy(broker.port, control={"path": "control", "ring": RING})
        with ExitStack() as stack:
            stack.callback(proxy.kill)
            with ExitStack() as connections:
                bulk = connections.enter_context(connected(proxy, heartbeat=0)).channel()
                clients.live(connections, proxy, history)
                readers = Readers(directory, directory / "control")
                stack.callback(readers.close)
                stack.callback(proxy.kill)
                check(clients, readers, bulk)


def check(clients: Clients, readers: Readers, bulk: Any) -> None:
    """Compare what readers know after they have joined, and after each loss, with what the clients did.

    A dashboard that was too slow is shown some of the connections in turns: it knows all that it is shown.
    """
    probes: set[str] = set()

    def has_snapshot() -> bool:
        """Whether both readers have a snapshot, as another message shows that they know."""
        nonlocal probes
        probes |= clients.send(1)
        return all(any(known({body}) <= found for body in probes) for found in readers.outcomes(probes))

    def lose() -> bool:
        """Make both readers miss frames; return whether they have noticed."""
        before = readers.lost
        with readers.losing():
            for _ in range(BULK):
                bulk.basic_publish("", "nobody" * 30, b"x" * 3_000)
            clients.send(20)
        return all(one > other for one, other in zip(readers.lost, before, strict=True))

    for loss in range(LOSSES + 1):
        if loss:
            until(lose, "frames to be missed", pause=1)
        probes = set()
        until(has_snapshot, "a snapshot", pause=0.2)
        until_known(clients.send(MESSAGES), readers, loss)


def until_known(bodies: set[str], readers: Readers, loss: int) -> None:
    """Wait until all of these messages are printed, and none is unknown to either reader."""
    expected = known(bodies)
    until(lambda: len(readers.outcomes(bodies)[0]) >= len(expected), "all records")
    printed, shown = readers.outcomes(bodies)
    assert printed == expected, loss
    assert shown <= expected, loss
