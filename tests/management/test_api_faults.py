"""An API whose process is stopped, flooded or killed, and a client of the broker that publishes meanwhile.

`make management-scale` measures how long its publishes wait.
"""

from __future__ import annotations

import http.client
import signal
import socket
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pika
import psutil
import pytest

from tests.cli.process import connected, port_in, start, until
from tests.management.api import Api

DEADLINE = 60.0

QUEUES = 200

PUBLISHES = 200

LISTS = ("queues", "queues?page=1&sort=messages", "definitions", "bindings", "overview")

FLOOD = b"POST /api/definitions HTTP/1.1\r\nHost: localhost\r\nAuthorization: %s\r\nContent-Length: 10000000\r\n\r\n"
"""A request whose body never comes whole."""


class Served:
    """A broker with its API, and a client that publishes with confirms."""

    def __init__(self, broker: psutil.Process, api: Api, channel: pika.adapters.blocking_connection.BlockingChannel):
        self.broker = broker
        self.api = api
        self._channel = channel

    @property
    def process(self) -> psutil.Process:
        """The process of the API."""
        [found] = self.broker.children()
        return found

    def publish(self) -> None:
        """Publish messages, each after the confirm of the one before."""
        for _ in range(PUBLISHES):
            self._channel.basic_publish("", "q0", b"x" * 100)

    @contextmanager
    def lists_under_way(self) -> Iterator[None]:
        """Request lists on connections that are never read."""
        login = b"Basic " + b64encode(b"guest:guest")
        with ExitStack() as stack:
            for path in LISTS:
                client = stack.enter_context(socket.create_connection(("127.0.0.1", self.api.port), DEADLINE))
                request = f"GET /api/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {login.decode()}\r\n\r\n"
                client.sendall(request.encode())
            yield

    def answers(self) -> bool:
        """Whether the API answers again, at last."""
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            with suppress(OSError, http.client.HTTPException):
                return self.api.ask("GET", "overview").status == 200
        return False


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with start("broker", "--listen", "127.0.0.1:0", "--management", "127.0.0.1:0") as process:
        port = int(until(process, "management").split("address=")[1].strip().rstrip("/").rpartition(":")[2])
        amqp = port_in(until(process, "listening"))
        assert process.stderr is not None
        threading.Thread(target=process.stderr.read, daemon=True).start()
        with connected(amqp) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for number in range(QUEUES):
                channel.queue_declare(f"q{number}", durable=True)
            yield Served(psutil.Process(process.pid), Api(port, amqp), channel)
        process.terminate()
        process.wait(DEADLINE)


def test_clients_publish_while_the_api_is_stopped(served: Served) -> None:
    assert served.answers()
    with served.lists_under_way():
        stopped = served.process
        stopped.send_signal(signal.SIGSTOP)
        try:
            served.publish()  # the API does not go on before all are confirmed
            assert stopped.status() == psutil.STATUS_STOPPED
        finally:
            stopped.send_signal(signal.SIGCONT)
    assert served.answers()


def test_clients_publish_while_the_api_is_flooded(served: Served) -> None:
    login = b"Basic " + b64encode(b"guest:guest")
    with ExitStack() as stack, served.lists_under_way():
        floods = [
            stack.enter_context(socket.create_connection(("127.0.0.1", served.api.port), DEADLINE)) for _ in range(20)
        ]
        for each in floods:
            each.sendall(FLOOD % login + b" " * 100_000)
        served.publish()
    assert served.answers()


def test_clients_publish_while_the_api_is_killed_and_started_again(served: Served) -> None:
    assert served.answers()
    with served.lists_under_way():
        killed = served.process
        killed.kill()
        served.publish()
    assert served.answers()
    assert served.process.pid != killed.pid
