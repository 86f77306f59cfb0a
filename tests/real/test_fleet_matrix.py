"""Each failure of a broker, for clients that do each thing: nothing confirmed is lost, and nobody hangs.

The broker that fails is RabbitMQ 4.3, behind a cable; clients land at RabbitMQ 3.10. `test_storm` has bystanders.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
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


KILL_VHOST = """lists:foreach(fun(_) ->
    case rabbit_vhost_sup_sup:get_vhost_sup(<<"/">>) of {ok, Host} -> exit(Host, kill); _ -> ok end,
    timer:sleep(300)
end, lists:seq(1, 10))."""
"""RabbitMQ starts a virtual host that fails again, but not for ever."""


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


@contextmanager
def working(fleet: Fleet, *kinds: str) -> Iterator[list[Worker]]:
    """Yield clients of these kinds once they work; they end with the block, and so does the proxy."""
    workers = [Worker(fleet, does, number) for does in kinds for number in range(CLIENTS)]
    try:
        for each in workers:
            each.start()
        until(lambda: all(each.steps > 3 for each in workers), "all clients to work")
        yield workers
    finally:
        for each in workers:
            each.is_over.set()
        for each in workers:
            each.join(30)
        fleet.kill()
    assert not [each.queue for each in workers if each.is_alive()]


def go_on(workers: list[Worker]) -> None:
    """Wait until each client has done more."""
    steps = [each.steps for each in workers]
    until(lambda: all(a.steps > b + 3 for a, b in zip(workers, steps, strict=True)), "all clients to go on")


def check_confirmed(workers: list[Worker], *nodes: RabbitMQ) -> None:
    """Check that no confirmed message is lost, and delete all queues."""
    for each in workers:
        found = set().union(*(left(node, each.queue) for node in nodes))
        if each.does in ("publishing", "tx"):
            assert set(each.confirmed) <= found, each.queue


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure(
    failure: str, victim: RabbitMQ, rabbitmq: RabbitMQ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROBE_PASSWORD", "guest")
    begin, heal = FAILURES[failure]
    cable = Cable(victim.port)
    fleet = Fleet(tmp_path, cable.port, rabbitmq.port, connect_timeout=2.0, check=CHECK | CHECKS.get(failure, {}))
    try:
        with working(fleet, "connecting", "idle", "publishing", "consuming", "tx") as workers:
            assert fleet.connections()[1] == 0
            begin(victim, cable)
            until(lambda: fleet.states()[0] in ("down", "ejected"), "the failure to be noticed")
            until(lambda: fleet.connections()[1] >= 4 * CLIENTS, "all clients to land elsewhere")
            go_on(workers)
            losers = [each for each in workers if each.does != "connecting"]
            assert [each.queue for each in losers if 320 not in each.codes] == []
            heal(victim, cable)
            until(lambda: fleet.states()[0] in ("up", "slow start"), "the broker to be taken back")
    finally:
        cable.set("pass")
    check_confirmed(workers, victim, rabbitmq)
    cable.close()


@pytest.mark.parametrize("alarm", ALARMS)
def test_an_alarm(
    alarm: str, victim: RabbitMQ, rabbitmq: RabbitMQ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New clients go elsewhere while publishers are blocked; those that are connected stay, and go on afterwards."""
    monkeypatch.setenv("PROBE_PASSWORD", "guest")
    begin, heal = ALARMS[alarm]
    fleet = Fleet(tmp_path, victim.port, rabbitmq.port, check=CHECK)
    newcomer = Worker(fleet, "idle", CLIENTS)
    with working(fleet, "idle", "publishing", "consuming") as workers:
        try:
            victim.ctl(*begin)
            until(lambda: fleet.members()[0]["blocked"] > 0, "the broker to block")
            newcomer.start()
            until(lambda: fleet.connections() == [len(workers), 1], "a new client to go elsewhere")
        finally:
            victim.ctl(*heal)
        until(lambda: fleet.members()[0]["blocked"] == 0, "the broker to go on")
        go_on(workers)
        newcomer.is_over.set()
        newcomer.join(30)
    assert [each.codes for each in workers] == [[]] * len(workers)
    check_confirmed([*workers, newcomer], victim, rabbitmq)


def test_a_virtual_host_that_is_down(
    victim: RabbitMQ, rabbitmq: RabbitMQ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New clients are led elsewhere once the broker has refused some with 541, and back when the host runs again."""
    monkeypatch.setenv("PROBE_PASSWORD", "guest")
    fleet = Fleet(tmp_path, victim.port, rabbitmq.port, check=CHECK)
    with working(fleet, "connecting", "idle", "publishing") as workers:
        victim.ctl("eval", KILL_VHOST)
        until(lambda: fleet.states()[0] in ("down", "ejected"), "the failure to be noticed")
        newcomers = [each for each in workers if each.does == "connecting"]
        go_on(newcomers)
        victim.ctl("restart_vhost")
        until(lambda: fleet.states()[0] in ("up", "slow start"), "the broker to be taken back")
        go_on(workers)
    for each in workers:  # not counted: the processes that are killed take messages with them
        left(victim, each.queue)
        left(rabbitmq, each.queue)


def test_a_certificate_that_expires(
    victim: RabbitMQ, rabbitmq: RabbitMQ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks fail from then on, so that the broker's clients are told 320; a new certificate leads clients back."""
    monkeypatch.setenv("PROBE_PASSWORD", "guest")
    good = {each: each.read_bytes() for each in (victim.certificates["certificate"], victim.certificates["key"])}
    expired = victim.authority.issue_cert("localhost", not_after=datetime.now(UTC) - timedelta(days=1))
    tls = {"ca": str(victim.certificates["authority"]), "server_name": "localhost"}
    members = [
        {"address": f"127.0.0.1:{victim.tls_port}", "tls": tls},
        {"address": f"127.0.0.1:{rabbitmq.port}", "priority": 1},
    ]
    fleet = Fleet(tmp_path, members=members, check=CHECK)
    try:
        with working(fleet, "connecting", "idle", "publishing", "consuming") as workers:
            assert fleet.connections()[1] == 0
            victim.certificates["key"].write_bytes(expired.private_key_pem.bytes())
            victim.certificates["certificate"].write_bytes(b"".join(each.bytes() for each in expired.cert_chain_pems))
            victim.ctl("eval", "ssl:clear_pem_cache().")
            until(lambda: fleet.states()[0] == "down", "the certificate to be refused")
            assert "certificate has expired" in fleet.log
            until(lambda: fleet.connections()[1] >= 3 * CLIENTS, "all clients to land elsewhere")
            go_on(workers)
            for file, content in good.items():
                file.write_bytes(content)
            victim.ctl("eval", "ssl:clear_pem_cache().")
            until(lambda: fleet.states()[0] in ("up", "slow start"), "the broker to be taken back")
            assert all(320 in each.codes for each in workers if each.does != "connecting")
    finally:
        for file, content in good.items():
            file.write_bytes(content)
    check_confirmed(workers, victim, rabbitmq)


def test_a_name_that_changes_and_goes(
    victim: RabbitMQ, rabbitmq: RabbitMQ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients stay with the broker whose address the name no longer has; new ones follow the name, even once it is
    gone.
    """
    monkeypatch.setenv("PROBE_PASSWORD", "guest")
    older = Cable(victim.port, "127.0.0.2")
    newer = Cable(rabbitmq.port, "127.0.0.3", older.port)
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.2 rabbit.test\n")
    within = ("unshare", "--mount", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$@"', "-")
    members = [{"address": f"rabbit.test:{older.port}", "resolve": "all"}]
    fleet = Fleet(tmp_path, members=members, within=within, check=CHECK, resolve_interval=0.5)
    newcomer = Worker(fleet, "idle", CLIENTS)
    try:
        with working(fleet, "idle", "publishing", "consuming") as workers:
            hosts.write_text("127.0.0.3 rabbit.test\n")
            until(lambda: "127.0.0.3" in str(fleet.members()), "the new address")
            assert "127.0.0.2" not in str(fleet.members())
            newcomer.start()
            until(lambda: fleet.connections() == [1], "a new client to follow the name")
            hosts.write_text("")
            time.sleep(2.0)  # four look-ups
            go_on([*workers, newcomer])
            fleet.client().close()
            assert "127.0.0.3" in str(fleet.members())
            newcomer.is_over.set()
            newcomer.join(30)
        assert [each.codes for each in (*workers, newcomer)] == [[]] * (len(workers) + 1)
    finally:
        older.close()
        newer.close()
    check_confirmed([*workers, newcomer], victim, rabbitmq)
