"""Two brokers behind a proxy that switches between them, with clients that number what they send."""

from __future__ import annotations

import gc
import json
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import psutil
from pika.adapters.blocking_connection import BlockingConnection

from amqproxy.control import ControlClient, RequestError
from tests.real.poll import until
from tests.real.ports import free_port
from tests.real.proxy import Program, command

WINDOW = 256
"""Messages that a mover may have on both brokers."""

PREFETCH = 10
"""Messages that a consumer may receive again."""


class BlueGreen:
    """A proxy on a port that stays the same, which may be killed and started again."""

    def __init__(self, directory: Path, blue: int, green: int, **further: Any) -> None:
        """`further` are keys of the config, in place of others."""
        self.directory = directory
        self.socket = directory / "control.sock"
        self.port = free_port()
        self.brokers = {"blue": blue, "green": green}
        login = {"user": "guest", "password_env": "SWITCH_PASSWORD"}
        config = {
            "listen": [{"address": f"127.0.0.1:{self.port}"}],
            "upstream": "blue",
            "upstreams": {
                "blue": {"address": f"127.0.0.1:{blue}", **login},
                "green": {"members": [{"address": f"127.0.0.1:{green}"}], **login},
            },
            "switching": {"state": str(directory / "switches.json")},
            "control": {"path": str(self.socket)},
        } | further
        config["listen"][0].setdefault("address", f"127.0.0.1:{self.port}")
        self.file = directory / "amqproxy.yaml"
        self.file.write_text(json.dumps(config))
        self.starts = 0
        self.start()

    def start(self) -> None:
        self.starts += 1
        log = self.directory / f"proxy-{self.starts}.log"
        self.program = Program(log, *command(), "run", "--config", str(self.file))

    def kill(self) -> None:
        self.program.kill()

    @property
    def log(self) -> str:
        return "\n".join(each.read_text() for each in sorted(self.directory.glob("proxy-*.log")))

    def ask(self, request: str, **keys: Any) -> dict[str, Any]:
        with ControlClient(self.socket) as client:
            return client.ask(request, **keys)

    def switch(self) -> dict[str, Any]:
        """The only switch; an empty one while the proxy is away."""
        try:
            return dict(self.ask("switches")["switches"][0])
        except (OSError, RequestError, EOFError):
            return {"state": "", "phase": "", "moved": 0}

    def until(self, state: str, deadline: float = 60.0) -> None:
        until(lambda: self.switch()["state"] == state, f"the switch to be {state}: {self.switch()}", deadline)

    def movers(self) -> list[psutil.Process]:
        """The processes that move messages for the present proxy."""
        try:
            return [each for each in self.program.psutil.children() if "amqproxy.moving.child" in each.cmdline()]
        except psutil.NoSuchProcess:
            return []

    def client(self, port: int | None = None, **options: Any) -> BlockingConnection:
        options.setdefault("heartbeat", 60)
        return BlockingConnection(pika.ConnectionParameters("127.0.0.1", port or self.port, **options))

    def connected(self) -> dict[str, int]:
        """The number of clients at each broker."""
        found = dict.fromkeys(self.brokers, 0)
        for each in self.ask("upstreams")["upstreams"]:
            found[each["upstream"]] += each["connections"]
        return found


class Client(threading.Thread):
    """A client that connects again whenever it loses its connection, until it `is_over`."""

    def __init__(self, place: BlueGreen, queue: str) -> None:
        super().__init__(daemon=True)
        self.place = place
        self.queue = queue
        self.codes: Counter[int] = Counter()
        self.connections = 0
        self.is_over = threading.Event()

    def run(self) -> None:
        while not self.is_over.is_set():
            connection = None
            try:
                connection = self.place.client(connection_attempts=1, blocked_connection_timeout=300)
                self.connections += 1
                channel = connection.channel()
                channel.queue_declare(self.queue, durable=True)
                self.work(connection, channel)
            except pika.exceptions.ConnectionClosed as error:
                self.codes[error.reply_code] += 1
            except (pika.exceptions.AMQPError, OSError, AssertionError):
                self.codes[0] += 1
            finally:
                if connection is not None and connection.is_open:
                    try:
                        connection.close()
                    except (pika.exceptions.AMQPError, OSError):
                        self.codes[0] += 1
            self.is_over.wait(0.1)

    def work(self, connection: BlockingConnection, channel: Any) -> None:
        raise NotImplementedError


class Publisher(Client):
    """Publishes the numbers from `first` on, each again until it is confirmed."""

    def __init__(self, place: BlueGreen, queue: str, first: int, pause: float) -> None:
        super().__init__(place, queue)
        self.next = first
        self.pause = pause
        self.repeats = 0

    def work(self, connection: BlockingConnection, channel: Any) -> None:
        channel.confirm_delivery()
        persistent = pika.BasicProperties(delivery_mode=2, headers={"n": self.next})
        while not self.is_over.is_set():
            self.repeats += 1
            channel.basic_publish("", self.queue, b"%d" % self.next, persistent, mandatory=True)
            self.repeats -= 1
            self.next += 1
            connection.process_data_events(self.pause)


class Consumer(Client):
    """Consumes, and notes each number in the order of its first delivery; `pause` is between two of them."""

    def __init__(self, place: BlueGreen, queue: str, pause: float) -> None:
        super().__init__(place, queue)
        self.pause = pause
        self.seen: list[int] = []
        self.known: set[int] = set()
        self.repeats = 0

    def work(self, connection: BlockingConnection, channel: Any) -> None:
        channel.basic_qos(prefetch_count=PREFETCH)
        channel.basic_consume(self.queue, self.take)
        while not self.is_over.is_set():
            connection.process_data_events(0.2)

    def take(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        number = int(body)
        if number in self.known:
            self.repeats += 1
        else:
            self.known.add(number)
            self.seen.append(number)
        if self.pause:
            time.sleep(self.pause)
        channel.basic_ack(method.delivery_tag)


def preload(place: BlueGreen, port: int, queues: list[str], count: int) -> None:
    """Put the numbers below `count` into each queue."""
    with place.client(port) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for queue in queues:
            channel.queue_declare(queue, durable=True)
    with place.client(port) as connection:  # without confirms for each, which would take long
        channel = connection.channel()
        for queue in queues:
            for number in range(count):
                channel.basic_publish("", queue, b"%d" % number, pika.BasicProperties(delivery_mode=2))
        channel.queue_declare(queues[-1], passive=True)
    until(lambda: all(depth(place, port, queue) == count for queue in queues), "all messages to be there")


def depth(place: BlueGreen, port: int, queue: str) -> int:
    """The number of messages that wait in a queue."""
    with place.client(port) as connection:
        found: int = connection.channel().queue_declare(queue, passive=True).method.message_count
    return found


def declare(place: BlueGreen, port: int, queues: list[str]) -> None:
    with place.client(port) as connection:
        channel = connection.channel()
        for queue in queues:
            channel.queue_declare(queue, durable=True)


def finished(clients: list[Client], place: BlueGreen) -> None:
    """End the clients."""
    for each in clients:
        each.is_over.set()
    for each in clients:
        each.join(60)
    assert not [each.queue for each in clients if each.is_alive()]
    gc.collect()  # sockets that pika leaves open are reported here, not in a later test
