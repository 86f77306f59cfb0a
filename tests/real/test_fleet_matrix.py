"""Each failure of a broker, for clients that do each thing: nothing confirmed is lost, and nobody hangs.

The broker that fails is RabbitMQ 4.3, behind a cable; clients land at RabbitMQ 3.10. Bystanders are clients there from
the beginning, of the same proxy.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingConnection

from tests.real.cable import Cable
from tests.real.fleet import Fleet
from tests.real.poll import until
from tests.real.rabbitmq import RabbitMQ, running
from tests.real.rabbitmq_installation import installation

pytestmark = [
    pytest.mark.real,
    pytest.mark.soak,
    # pika leaves sockets open where a connection ends in its handshake
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

CLIENTS = 8
"""Clients of each kind."""

CHECK = {
    "kind": "amqp",
    "interval": 0.5,
    "timeout": 3.0,
    "fall": 2,
    "rise": 1,
    "user": "guest",
    "password_env": "PROBE_PASSWORD",
}


class Worker(threading.Thread):
    """A client that does one thing again and again, and connects again when it loses its connection."""

    def __init__(self, fleet: Fleet, does: str, number: int) -> None:
        super().__init__(daemon=True)
        self.fleet = fleet
        self.does = does
        self.queue = f"fleet.{does}.{number}"
        self.confirmed: list[bytes] = []
        self.steps = 0
        self.codes: list[int] = []
        self.is_over = threading.Event()

    def run(self) -> None:
        while not self.is_over.is_set():
            try:
                connection = self.fleet.client(heartbeat=60, connection_attempts=1)
                try:
                    self._work(connection)
                finally:
                    if connection.is_open:
                        connection.close()
            except pika.exceptions.ConnectionClosed as error:
                self.codes.append(error.reply_code)
            except (pika.exceptions.AMQPError, OSError):
                self.codes.append(0)
                time.sleep(0.05)

    def _work(self, connection: BlockingConnection) -> None:
        if self.does == "connecting":
            self.steps += 1
            return
        channel = connection.channel()
        channel.queue_declare(self.queue, durable=True)
        if self.does == "publishing":
            channel.confirm_delivery()
        if self.does == "consuming":
            channel.basic_consume(self.queue, lambda *_: None, auto_ack=True)
        if self.does == "tx":
            channel.tx_select()
        while not self.is_over.is_set():
            body = b"%d" % self.steps
            persistent = pika.BasicProperties(delivery_mode=2)
            if self.does in ("publishing", "tx"):
                channel.basic_publish("", self.queue, body, persistent, mandatory=self.does == "publishing")
            if self.does == "tx":
                channel.tx_commit()
            if self.does in ("publishing", "tx"):
                self.confirmed.append(body)
            connection.process_data_events(0.02)
            self.steps += 1


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    with running(tmp_path_factory.mktemp("rabbitmq"), installation("4.3")) as node:
        yield node


def _signalled(number: int) -> Callable[[RabbitMQ, Cable], None]:
    def act(victim: RabbitMQ, cable: Cable) -> None:
        assert victim.node is not None
        os.killpg(victim.node.pid, number)

    return act


def _restarted(victim: RabbitMQ, cable: Cable) -> None:
    victim.kill()
    victim.start()


def _set(mode: Any) -> Callable[[RabbitMQ, Cable], None]:
    return lambda victim, cable: cable.set(mode)


FAILURES: dict[str, tuple[Callable[[RabbitMQ, Cable], None], Callable[[RabbitMQ, Cable], None]]] = {
    "kill -9": (lambda victim, cable: victim.kill(), _restarted),
    "SIGTERM": (_signalled(signal.SIGTERM), _restarted),
    "SIGSTOP": (_signalled(signal.SIGSTOP), _signalled(signal.SIGCONT)),
    "resets": (_set("cut"), _set("pass")),
    "black hole": (_set("stall"), _set("pass")),
    "refused": (_set("refuse"), _set("pass")),
    "1 KiB/s": (_set("slow"), _set("pass")),
}

CHECKS = {"1 KiB/s": {"timeout": 0.8}}
"""A handshake with a proper close has about a kilobyte: only the time limit of a check notices a slow broker."""

ALARMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "memory": (("set_vm_memory_high_watermark", "0"), ("set_vm_memory_high_watermark", "0.6")),
    "disk": (("set_disk_free_limit", "9999GB"), ("set_disk_free_limit", "1MB")),
}


def left(node: RabbitMQ, queue: str) -> set[bytes]:
    """The bodies that wait in a queue, which is deleted."""
    found = set()
    with ExitStack() as stack:
        connection = BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.port))
        stack.callback(connection.close)
        channel = connection.channel()
        channel.queue_declare(queue, durable=True)
        while True:
            got, _, body = channel.basic_get(queue, auto_ack=True)
            if got is None:
                break
            found.add(body)
        channel.queue_delete(queue)
    return found


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure(
    failure: str, victim: RabbitMQ, rabbitmq: RabbitMQ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROBE_PASSWORD", "guest")
    begin, heal = FAILURES[failure]
    cable = Cable(victim.port)
    fleet = Fleet(tmp_path, cable.port, rabbitmq.port, connect_timeout=2.0, check=CHECK | CHECKS.get(failure, {}))
    kinds = ("connecting", "idle", "publishing", "consuming", "tx")
    workers: list[Worker] = []
    try:
        workers += [Worker(fleet, does, number) for does in kinds for number in range(CLIENTS)]
        for each in workers:
            each.start()
        until(lambda: all(each.steps > 3 for each in workers), "all clients to work")
        assert fleet.connections()[1] == 0
        begin(victim, cable)
        until(lambda: fleet.states()[0] in ("down", "ejected"), "the failure to be noticed")
        until(lambda: fleet.connections()[1] >= CLIENTS * (len(kinds) - 1), "all clients to land elsewhere")
        steps = [each.steps for each in workers]
        until(lambda: all(a.steps > b + 3 for a, b in zip(workers, steps, strict=True)), "all clients to go on")
        losers = [each for each in workers if each.does != "connecting"]
        assert [each.queue for each in losers if 320 not in each.codes] == []
        heal(victim, cable)
        until(lambda: fleet.states()[0] in ("up", "slow start"), "the broker to be taken back")
    finally:
        for each in workers:
            each.is_over.set()
        for each in workers:
            each.join(30)
        fleet.kill()
        cable.set("pass")
    assert not [each.queue for each in workers if each.is_alive()]
    for each in workers:
        if each.does in ("publishing", "tx"):
            missing = set(each.confirmed) - left(victim, each.queue) - left(rabbitmq, each.queue)
            assert missing == set(), each.queue
        elif each.does in ("consuming", "idle"):
            left(victim, each.queue)
            left(rabbitmq, each.queue)
    cable.close()


@pytest.mark.parametrize("alarm", ALARMS)
def test_an_alarm(
    alarm: str, victim: RabbitMQ, rabbitmq: RabbitMQ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New clients go elsewhere while publishers are blocked; those that are connected stay, and go on afterwards."""
    monkeypatch.setenv("PROBE_PASSWORD", "guest")
    begin, heal = ALARMS[alarm]
    fleet = Fleet(tmp_path, victim.port, rabbitmq.port, check=CHECK)
    workers = [Worker(fleet, does, number) for does in ("idle", "publishing", "consuming") for number in range(CLIENTS)]
    newcomer = Worker(fleet, "idle", CLIENTS)
    try:
        for each in workers:
            each.start()
        until(lambda: all(each.steps > 3 for each in workers), "all clients to work")
        victim.ctl(*begin)
        until(lambda: fleet.members()[0]["blocked"] > 0, "the broker to block")
        newcomer.start()
        until(lambda: fleet.connections() == [len(workers), 1], "a new client to go elsewhere")
        victim.ctl(*heal)
        until(lambda: fleet.members()[0]["blocked"] == 0, "the broker to go on")
        steps = [each.steps for each in workers]
        until(lambda: all(a.steps > b + 3 for a, b in zip(workers, steps, strict=True)), "all clients to go on")
    finally:
        victim.ctl(*heal)
        for each in (*workers, newcomer):
            each.is_over.set()
        for each in (*workers, newcomer):
            each.join(30)
        fleet.kill()
    assert [each.codes for each in workers] == [[]] * len(workers)
    for each in workers:
        found = left(victim, each.queue)
        assert set(each.confirmed) <= found or each.does != "publishing"
