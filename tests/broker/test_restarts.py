"""What clients find after a kill and a restart: the same of our broker and of RabbitMQ, whose node takes its time."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import pika
import pika.exceptions
import pytest

from tests.real.rabbitmq import RabbitMQ

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DEADLINE = 60.0


class Target(Protocol):
    """A broker that can be killed and started again with what it has."""

    port: int

    def kill(self) -> None: ...
    def start(self) -> None: ...


class Own:
    """Ours, in a process of its own."""

    def __init__(self, directory: Path) -> None:
        self._command = [sys.executable, "-m", "tests.broker.test_kills", str(directory)]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def running(name: str, directory: Path) -> Iterator[Target]:
    with ExitStack() as stack:
        if name == "rabbitmq":
            node = RabbitMQ(directory)
            stack.callback(node.stop)
            node.start()
            yield node
        else:
            own = Own(directory)
            stack.callback(own.kill)
            yield own


def connected(target: Target) -> Any:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", target.port))


class Before:
    """One client, and what it does before the kill."""

    def __init__(self, target: Target) -> None:
        self.connection = connected(target)
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()

    def close(self) -> None:
        with suppress(pika.exceptions.AMQPError):
            self.connection.close()

    def publish(self, queue: str, numbers: range, mode: int = 2) -> None:
        for number in numbers:
            self.channel.basic_publish("", queue, b"%d" % number, pika.BasicProperties(delivery_mode=mode))

    def get(self, queue: str, count: int, channel: Any = None) -> list[int]:
        tags = []
        end = time.monotonic() + DEADLINE
        while len(tags) < count and time.monotonic() < end:
            method = (channel or self.channel).basic_get(queue)[0]
            if method is not None:
                tags.append(method.delivery_tag)
        return tags

    def requeue(self, queue: str, tag: int) -> None:
        """Put back, and wait until it is."""
        before = self.ready(queue)
        self.channel.basic_nack(tag, requeue=True)
        self.wait(queue, before + 1)

    def ready(self, queue: str) -> int:
        count: int = self.channel.queue_declare(queue, passive=True).method.message_count
        return count

    def wait(self, queue: str, count: int) -> None:
        """Until so many are ready."""
        end = time.monotonic() + DEADLINE
        while self.ready(queue) != count:
            assert time.monotonic() < end, f"{self.ready(queue)} in {queue}, not {count}"
            self.connection.process_data_events(0.05)

    def drained(self, queue: str, count: int) -> list[tuple[int, int]]:
        """What is there, and how often each has come back; so many are expected."""
        found: list[tuple[int, int]] = []
        end = time.monotonic() + DEADLINE
        while len(found) < count and time.monotonic() < end:
            method, properties, body = self.channel.basic_get(queue, auto_ack=True)
            if method is None:
                self.connection.process_data_events(0.05)
                continue
            again = (properties.headers or {}).get("x-delivery-count", 0)
            assert method.redelivered == (again > 0)
            found.append((int(body), again))
        assert self.channel.basic_get(queue)[0] is None
        return found


QUEUES: dict[str, dict[str, Any]] = {
    "behind": {},
    "limited": {"x-delivery-limit": 5},
    "again": {},
    "transient": {},
}

EXPECTED = {
    "behind": [(2, 1), (3, 1), (4, 0), (5, 0), (1, 1)],
    "limited": [(2, 1), (1, 1), (3, 1), (4, 0), (5, 0)],
    "again": [(2, 1), (3, 1), (1, 2), (4, 0), (5, 0)],
    "transient": [(1, 0), (2, 0), (3, 0)],
}
"""Who was requeued without a limit is last, and with one is first; who was out is behind who had come back."""


def prepare(before: Before) -> None:
    for name, arguments in QUEUES.items():
        before.channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum", **arguments})
        before.publish(name, range(1, 3 if name == "transient" else 6), mode=1 if name == "transient" else 2)
    before.requeue("behind", before.get("behind", 3)[0])
    before.requeue("limited", before.get("limited", 3)[1])
    other = before.connection.channel()
    before.get("again", 3, other)
    other.close()
    before.wait("again", 5)
    before.get("again", 1)
    before.publish("transient", range(3, 4))  # once this is confirmed, all of it is on the disk


def settle(name: str, client: Before) -> None:
    if name == "rabbitmq":
        client.connection.process_data_events(3.0)


@pytest.mark.parametrize(
    "name", ["amqproxy", pytest.param("rabbitmq", marks=[pytest.mark.soak, pytest.mark.timeout(300)])]
)
def test_quorum_queues_go_on_where_they_were(name: str, tmp_path: Path) -> None:
    with running(name, tmp_path) as target:
        before = Before(target)
        prepare(before)
        settle(name, before)  # RabbitMQ is not sure to bring a queue up again that it has just written to
        target.kill()
        with pytest.raises(pika.exceptions.AMQPError):
            before.channel.queue_declare("behind", passive=True)
        target.start()
        before.close()
        after = Before(target)
        settle(name, after)  # RabbitMQ takes its time to see who is gone
        assert {name: after.drained(name, len(found)) for name, found in EXPECTED.items()} == EXPECTED
        after.close()
