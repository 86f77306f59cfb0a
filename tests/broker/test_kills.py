"""A broker that is killed under load, again and again, keeps what it promised, whatever kind of queue it was."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pika
import pika.exceptions
import pytest
import trio

from amqproxy.broker.broker import Broker
from amqproxy.broker.server.persistence import persisted
from amqproxy.broker.server.server import serve

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LONGEST_DELAY = 300
"""Milliseconds for which the delayed exchange holds a message, at most."""

IN_FLIGHT = 1000
"""Acks that may be on their way when the broker is killed."""


async def serve_kept(directory: Path) -> None:
    broker = Broker()
    async with persisted(broker, directory), serve(broker) as port:
        os.write(sys.stdout.fileno(), b"%d\n" % port)
        await trio.sleep_forever()


def connected(port: int) -> Any:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))


class Load:
    """Numbers that go through one queue of a broker; which were confirmed, and which were acked, in that order."""

    arguments: ClassVar[dict[str, Any]] = {}

    def __init__(self, name: str) -> None:
        self.name = name
        self.confirmed: list[int] = []
        self.acked: list[int] = []
        self.round: list[int] = []
        """What was received since the broker began."""
        self.first = 0
        """The first number that was published since then."""

    def declare(self, channel: Any) -> None:
        channel.queue_declare(self.name, durable=True, arguments=self.arguments)

    def publish(self, port: int) -> None:
        """Publish numbers, one more each time, until the broker is gone."""
        with suppress(pika.exceptions.AMQPError):
            channel = connected(port).channel()
            self.declare(channel)
            channel.confirm_delivery()
            # Whatever was published and not confirmed may be there, the very first one of a life too: the next numbers
            # are far above.
            self.first += 100_000
            for number in range(self.first, self.first + 100_000):
                self.publish_one(channel, b"%d" % number)
                self.confirmed.append(number)

    def publish_one(self, channel: Any, body: bytes) -> None:
        channel.basic_publish("", self.name, body, pika.BasicProperties(delivery_mode=2))

    def consume(self, port: int) -> None:
        """Take every message, until the broker is gone."""
        self.round = []
        with suppress(pika.exceptions.AMQPError):
            channel = connected(port).channel()
            self.declare(channel)
            channel.basic_qos(prefetch_count=20)
            for method, properties, body in channel.consume(self.name):
                self.take(channel, method, properties, int(body))

    def take(self, channel: Any, method: Any, properties: Any, number: int) -> None:
        self.round.append(number)
        self.acked.append(number)
        channel.basic_ack(method.delivery_tag)

    def check_round(self) -> None:
        """What came in one life of the broker."""
        assert self.round == sorted(set(self.round))

    def rest(self, port: int) -> list[int]:
        """What is left in the end."""
        with connected(port) as connection:
            channel = connection.channel()
            got = []
            while (found := channel.basic_get(self.name, auto_ack=True))[0] is not None:
                got.append(int(found[2]))
            return got

    def check(self, left: list[int]) -> None:
        """Nothing that was confirmed is lost, but for what was acked, and the order holds."""
        assert left == sorted(set(left))
        self.check_all_is_there(left)

    def check_all_is_there(self, left: list[int]) -> None:
        assert set(self.confirmed) <= set(left) | set(self.acked)
        assert len(set(left) & set(self.acked)) <= IN_FLIGHT


class QuorumLoad(Load):
    """Each seventh is put back once, behind all others. What is in doubt when the broker is killed is counted."""

    arguments: ClassVar[dict[str, Any]] = {"x-queue-type": "quorum"}

    def take(self, channel: Any, method: Any, properties: Any, number: int) -> None:
        count = (properties.headers or {}).get("x-delivery-count", 0)
        assert method.redelivered == (count > 0)
        if number % 7 == 0 and count == 0:
            channel.basic_nack(method.delivery_tag, requeue=True)
        else:
            super().take(channel, method, properties, number)

    def check_round(self) -> None:
        assert len(self.round) == len(set(self.round))

    def check(self, left: list[int]) -> None:
        assert len(left) == len(set(left))
        self.check_all_is_there(left)


class StreamLoad(Load):
    """Nothing is ever taken from it: in the end, all that was confirmed is there, in its order."""

    arguments: ClassVar[dict[str, Any]] = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 500}

    def take(self, channel: Any, method: Any, properties: Any, number: int) -> None:
        self.round.append(number)
        channel.basic_ack(method.delivery_tag)

    def rest(self, port: int) -> list[int]:
        with connected(port) as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=200)
            count = channel.queue_declare(self.name, passive=True).method.message_count
            got, offsets = [], []
            if count:
                for method, properties, body in channel.consume(self.name, arguments={"x-stream-offset": "first"}):
                    got.append(int(body))
                    offsets.append(properties.headers["x-stream-offset"])
                    channel.basic_ack(method.delivery_tag)
                    if len(got) == count:
                        break
            assert offsets == list(range(count))
            return got

    def check_all_is_there(self, left: list[int]) -> None:
        assert set(self.confirmed) <= set(left)


class DelayedLoad(Load):
    """A delayed exchange holds each for some time, and gives it to the queue then, or when the broker is back."""

    def declare(self, channel: Any) -> None:
        super().declare(channel)
        channel.exchange_declare("d", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"})
        channel.queue_bind(self.name, "d")

    def publish_one(self, channel: Any, body: bytes) -> None:
        headers = {"x-delay": random.randrange(LONGEST_DELAY)}
        channel.basic_publish("d", "", body, pika.BasicProperties(delivery_mode=2, headers=headers))

    def check_round(self) -> None:
        assert len(self.round) == len(set(self.round))

    def rest(self, port: int) -> list[int]:
        time.sleep(LONGEST_DELAY / 1000 + 0.1)  # so long, the broker may hold what it has
        return super().rest(port)

    def check(self, left: list[int]) -> None:
        assert len(left) == len(set(left))
        self.check_all_is_there(left)


LOADS = {"q": Load, "quorum": QuorumLoad, "stream": StreamLoad, "delayed": DelayedLoad}


async def with_broker(directory: Path, do: Callable[[int], Any]) -> Any:
    broker = Broker()
    async with persisted(broker, directory), serve(broker) as port:
        return await trio.to_thread.run_sync(do, port)


def kill_often(directory: Path, rounds: int) -> None:
    loads = [make(name) for name, make in LOADS.items()]
    for _ in range(rounds):
        command = [sys.executable, "-m", "tests.broker.test_kills", str(directory)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            work = [each for load in loads for each in (load.publish, load.consume)]
            threads = [threading.Thread(target=each, args=(port,)) for each in work]
            for thread in threads:
                thread.start()
            time.sleep(random.uniform(0.1, 0.8))
            process.kill()
            for thread in threads:
                thread.join()
            assert process.wait() == -signal.SIGKILL
        for load in loads:
            load.check_round()
    for load in loads:
        assert load.confirmed
        load.check(trio.run(with_broker, directory, load.rest))


def test_a_few_kills(tmp_path: Path) -> None:
    kill_often(tmp_path, 3)


ANSWERED: dict[str, tuple[Callable[[Any], object], Callable[[Any], object]]] = {
    "queue.declare": (
        lambda ch: ch.queue_declare("new", durable=True),
        lambda ch: ch.queue_declare("new", passive=True),
    ),
    "exchange.declare": (
        lambda ch: ch.exchange_declare("new", durable=True),
        lambda ch: ch.exchange_declare("new", passive=True),
    ),
    "queue.bind": (lambda ch: ch.queue_bind("q", "x", "k"), lambda ch: routed(ch, "k", 1)),
    "exchange.bind": (lambda ch: ch.exchange_bind("y", "x", "e"), lambda ch: routed(ch, "e", 1)),
    "queue.unbind": (lambda ch: ch.queue_unbind("q", "x", "there"), lambda ch: routed(ch, "there", 0)),
    "exchange.unbind": (lambda ch: ch.exchange_unbind("y", "x", "away"), lambda ch: routed(ch, "away", 0)),
    "queue.purge": (lambda ch: ch.queue_purge("full"), lambda ch: holds(ch, "full", 0)),
    "queue.delete": (lambda ch: ch.queue_delete("full"), lambda ch: is_gone(ch.queue_declare, "full")),
    "exchange.delete": (lambda ch: ch.exchange_delete("y"), lambda ch: is_gone(ch.exchange_declare, "y")),
}
"""What is asked of a broker, and how it shows that it was done."""


def routed(channel: Any, key: str, count: int) -> None:
    channel.confirm_delivery()
    channel.basic_publish("x", key, b"")
    holds(channel, "q", count)


def holds(channel: Any, queue: str, count: int) -> None:
    assert channel.queue_declare(queue, passive=True).method.message_count == count


def is_gone(declare: Any, name: str) -> None:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="NOT_FOUND"):
        declare(name, passive=True)


def furnish(channel: Any) -> None:
    for name in ("q", "full"):
        channel.queue_declare(name, durable=True)
    for name in ("x", "y"):
        channel.exchange_declare(name, durable=True)
    channel.queue_bind("q", "x", "there")
    channel.exchange_bind("y", "x", "away")
    for key in ("e", "away"):
        channel.queue_bind("q", "y", key)
    channel.confirm_delivery()
    channel.basic_publish("", "full", b"", pika.BasicProperties(delivery_mode=2))


@pytest.mark.parametrize("asked", ANSWERED)
def test_what_was_answered_is_done_though_the_broker_is_killed_at_once(tmp_path: Path, asked: str) -> None:
    act, check = ANSWERED[asked]
    command = [sys.executable, "-m", "tests.broker.test_kills", str(tmp_path)]
    for do in (furnish, act):
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            connection = connected(int(process.stdout.readline()))
            do(connection.channel())
            process.kill()
        with suppress(pika.exceptions.AMQPError):
            connection.close()

    def look(port: int) -> None:
        with connected(port) as connection:
            check(connection.channel())

    trio.run(with_broker, tmp_path, look)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_many_kills(tmp_path: Path) -> None:
    kill_often(tmp_path, 60)


if __name__ == "__main__":
    trio.run(serve_kept, Path(sys.argv[1]))
