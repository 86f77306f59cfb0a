"""Each failure of a broker, for clients that do each thing: nothing confirmed is lost, and nobody hangs.

The broker that fails is RabbitMQ 4.3, behind a cable; its clients land at RabbitMQ 3.10 and at the integrated broker,
which have clients of their own: the bystanders.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingConnection

from amqproxy.control import ControlClient
from tests.real.bystanders import Bystanders
from tests.real.cable import Cable
from tests.real.fleet import Fleet
from tests.real.network_namespace import NetworkNamespace
from tests.real.own import OwnBroker
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

BYSTANDERS = 4
"""Clients of the brokers that do not fail."""

P99 = 20.0
"""Milliseconds within which 99 % of their confirms come."""

QUIET = 5.0
"""Milliseconds within which they come without the proxy, on a machine that has the time to tell."""

WATCHED = 5.0
"""Seconds in which their confirms are measured, from the failure on: a thousand."""

DRAIN = 5.0
"""Seconds in which the proxy drains."""

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
            except (pika.exceptions.AMQPError, OSError, ValueError):  # pika's for a socket that is closed at once
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


Broker = RabbitMQ | OwnBroker
Act = Callable[["Field"], None]
"""Something that is done to the broker that fails, or to the way there."""


@dataclass
class Field:
    """The broker that fails, and the way there; `namespace` is that of the proxy, if it has its own."""

    victim: RabbitMQ
    cable: Cable
    namespace: NetworkNamespace | None = None


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    with running(tmp_path_factory.mktemp("rabbitmq"), installation("4.3")) as node:
        yield node


def _signalled(number: int) -> Act:
    def act(field: Field) -> None:
        assert field.victim.node is not None
        os.killpg(field.victim.node.pid, number)

    return act


def _restarted(field: Field) -> None:
    field.victim.kill()
    field.victim.start()


def _set(mode: Any) -> Act:
    return lambda field: field.cable.set(mode)


def _partitioned(field: Field) -> None:
    assert field.namespace is not None
    field.namespace.partition(field.cable.port)


def _healed(field: Field) -> None:
    assert field.namespace is not None
    field.namespace.heal()


PARTITION = "dropped packets"

FAILURES: dict[str, tuple[Act, Act]] = {
    "kill -9": (lambda field: field.victim.kill(), _restarted),
    "SIGTERM": (_signalled(signal.SIGTERM), _restarted),
    "SIGSTOP": (_signalled(signal.SIGSTOP), _signalled(signal.SIGCONT)),
    "resets": (_set("cut"), _set("pass")),
    "black hole": (_set("stall"), _set("pass")),
    "refused": (_set("refuse"), _set("pass")),
    "slow": (_set("slow"), _set("pass")),
    PARTITION: (_partitioned, _healed),
}

CHECKS = {"slow": {"timeout": 1.5}}
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


def left(node: Broker, queue: str) -> set[bytes]:
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


def check_confirmed(workers: list[Worker], *nodes: Broker) -> None:
    """Check that no confirmed message is lost, and delete all queues."""
    for each in workers:
        found = set().union(*(left(node, each.queue) for node in nodes))
        if each.does in ("publishing", "tx"):
            assert set(each.confirmed) <= found, each.queue


@contextmanager
def three(
    failure: str, tmp_path: Path, victim: RabbitMQ, *others: Broker, **options: Any
) -> Iterator[tuple[Fleet, Field]]:
    """Yield a proxy in front of brokers, the first of which is preferred, and what can be done to that one.

    Where packets are dropped, the proxy is in a network namespace of its own, which cables lead into and out of.
    """
    with ExitStack() as stack:
        namespace = stack.enter_context(closing(NetworkNamespace())) if failure == PARTITION else None

        def laid(port: int) -> Cable:
            place = nullcontext if namespace is None else namespace.entered
            return stack.enter_context(closing(Cable(port, listens_in=place)))

        cable = laid(victim.port)
        ports = [each.port if namespace is None else laid(each.port).port for each in others]
        members: list[dict[str, Any]] = [{"address": f"127.0.0.1:{port}", "priority": 1} for port in ports]
        members.insert(0, {"address": f"127.0.0.1:{cable.port}"})
        options["check"] = CHECK | CHECKS.get(failure, {})
        within = () if namespace is None else namespace.within
        fleet = Fleet(tmp_path, members=members, within=within, connect_timeout=2.0, **options)
        stack.callback(fleet.kill)
        if namespace is not None:
            fleet.port = stack.enter_context(closing(Cable(fleet.port, connects_in=namespace.entered))).port
        yield fleet, Field(victim, cable, namespace)


@contextmanager
def bystanding(fleet: Fleet, *others: Broker) -> Iterator[Bystanders]:
    """Yield clients of the members but the first: some through the proxy, and one that is connected to each."""
    member = fleet.members()[0]["member"]
    with ControlClient(fleet.socket) as control:
        control.ask("upstreams-drain", member=member)
        with closing(Bystanders(*[fleet.port] * BYSTANDERS, *(each.port for each in others))) as bystanders:
            control.ask("upstreams-restore", member=member)
            yield bystanders


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure(
    failure: str,
    victim: RabbitMQ,
    rabbitmq: RabbitMQ,
    own_broker: OwnBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PROBE_PASSWORD", "guest")
    begin, heal = FAILURES[failure]
    others = rabbitmq, own_broker
    with three(failure, tmp_path, victim, *others) as (fleet, field), bystanding(fleet, *others) as bystanders:
        with working(fleet, "connecting", "idle", "publishing", "consuming", "tx") as workers:
            assert sum(fleet.connections()[1:]) == BYSTANDERS
            calm = time.monotonic()
            go_on(workers)
            until(lambda: time.monotonic() > calm + WATCHED, "enough confirms of the bystanders")
            began = time.monotonic()
            begin(field)
            until(lambda: fleet.states()[0] in ("down", "ejected"), "the failure to be noticed")
            noticed = time.monotonic()
            landed = BYSTANDERS + 4 * CLIENTS
            until(lambda: sum(fleet.connections()[1:]) >= landed, "all clients to land elsewhere")
            go_on(workers)
            gone_on = time.monotonic()
            until(lambda: time.monotonic() > began + WATCHED, "enough confirms of the bystanders")
            over = time.monotonic()
            losers = [each for each in workers if each.does != "connecting"]
            assert [each.queue for each in losers if 320 not in each.codes] == []
            heal(field)
            until(lambda: fleet.states()[0] in ("up", "slow start"), "the broker to be taken back")
            bystanders.end()
        check_confirmed(workers, victim, *others)
    assert bystanders.faults == []
    direct = [each.port for each in others]
    p99, floor = bystanders.p99(began, over, fleet.port), bystanders.p99(began, over, *direct)
    before, floor_before = bystanders.p99(calm, began, fleet.port), bystanders.p99(calm, began, *direct)
    logging.getLogger(__name__).info(
        "%s: noticed after %.1f s, all went on after %.1f s; p99 of the bystanders' confirms %.1f ms (connected to "
        "the brokers %.1f ms), before %.1f ms (%.1f ms)",
        *(failure, noticed - began, gone_on - began, p99, floor, before, floor_before),
    )
    if field.namespace is None and max(floor, floor_before) <= QUIET:  # cables lead through the threads of the test
        assert p99 <= P99


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_while_the_proxy_drains(
    failure: str,
    victim: RabbitMQ,
    rabbitmq: RabbitMQ,
    own_broker: OwnBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each client is told 320, or that its broker is gone, and the drain is over in its time."""
    monkeypatch.setenv("PROBE_PASSWORD", "guest")
    begin, heal = FAILURES[failure]
    limits = {"drain_timeout": DRAIN}
    with three(failure, tmp_path, victim, rabbitmq, own_broker, limits=limits) as (fleet, field):
        with working(fleet, "connecting", "idle", "publishing", "consuming", "tx") as workers:
            fleet.terminate()
            begin(field)
            assert fleet.wait(DRAIN + 10) == 0
            losers = [each for each in workers if each.does != "connecting"]
            until(lambda: all(each.codes for each in losers), "all clients to be told")
            assert [each.queue for each in losers if each.codes[0] != 320] == []
        heal(field)
        check_confirmed(workers, victim, rabbitmq, own_broker)


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
