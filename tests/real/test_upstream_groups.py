"""A group of three brokers behind one proxy: RabbitMQ 3.10 and 4.3, and ours. What fails hurts only its own clients."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingConnection

from amqproxy.control import ControlClient
from tests.real.fleet import Fleet, StartFleet
from tests.real.own import OwnBroker
from tests.real.poll import until
from tests.real.rabbitmq import RabbitMQ, running
from tests.real.rabbitmq_installation import installation

pytestmark = [pytest.mark.real, pytest.mark.once]


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    with running(tmp_path_factory.mktemp("rabbitmq"), installation("4.3")) as node:
        yield node


@pytest.fixture
def own(tmp_path: Path) -> Iterator[OwnBroker]:
    broker = OwnBroker(tmp_path)
    yield broker
    broker.kill()


@pytest.fixture
def start_fleet(tmp_path: Path) -> Iterator[StartFleet]:
    started: list[Fleet] = []

    def start(*ports: int, **group: Any) -> Fleet:
        started.append(Fleet(tmp_path, *ports, **group))
        return started[-1]

    yield start
    for each in started:
        each.kill()


@pytest.fixture
def probing(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Checks that log in."""
    monkeypatch.setenv("PROBE_PASSWORD", "guest")
    login = {"user": "guest", "password_env": "PROBE_PASSWORD"}
    return {"kind": "amqp", "interval": 0.3, "timeout": 4.0, "fall": 2, "rise": 1, **login}


def fault_of(connection: BlockingConnection) -> pika.exceptions.AMQPError:
    """What ends a connection."""
    try:
        while True:
            connection.process_data_events(0.05)
    except pika.exceptions.AMQPConnectionError as fault:
        return fault


def publish(connection: BlockingConnection, count: int) -> None:
    """Publish with confirms, which must come."""
    channel = connection.channel()
    channel.confirm_delivery()
    queue = channel.queue_declare("", exclusive=True).method.queue
    for number in range(count):
        channel.basic_publish("", queue, b"%d" % number, mandatory=True)
    assert channel.queue_declare(queue, passive=True).method.message_count == count


def test_clients_of_a_killed_broker_land_elsewhere(
    start_fleet: StartFleet, own: OwnBroker, newer: RabbitMQ, rabbitmq: RabbitMQ
) -> None:
    fleet = start_fleet(own.port, newer.port, rabbitmq.port)
    lost = [fleet.client() for _ in range(5)]
    publish(lost[0], 100)
    assert fleet.connections() == [5, 0, 0]
    own.kill()
    faults = [fault_of(each) for each in lost]
    assert {fault.reply_code for fault in faults} == {320}  # type: ignore[attr-defined]
    later = [fleet.client() for _ in range(5)]
    for each in later:
        publish(each, 20)
    until(lambda: fleet.connections() == [0, 5, 0], "the others to be counted")
    first = fleet.members()[0]
    assert first["retries"] >= 3
    assert first["ejections"] == 1
    for each in later:
        each.close()


def test_a_stopped_broker_is_noticed_and_taken_back(
    start_fleet: StartFleet, own: OwnBroker, newer: RabbitMQ, rabbitmq: RabbitMQ, probing: dict[str, Any]
) -> None:
    fleet = start_fleet(own.port, newer.port, rabbitmq.port, check=probing)
    before = len(newer.log), len(rabbitmq.log)
    lost = [fleet.client() for _ in range(3)]
    os.kill(own.pid, signal.SIGSTOP)
    try:
        assert {fault_of(each).reply_code for each in lost} == {320}  # type: ignore[attr-defined]
        assert fleet.states()[0] == "down"
        later = fleet.client()
        publish(later, 20)
        assert fleet.connections()[1] == 1
    finally:
        os.kill(own.pid, signal.SIGCONT)
    until(lambda: fleet.states()[0] in ("up", "slow start"), "the broker to be taken back")
    publish(later, 20)  # it stays where it is
    later.close()
    with fleet.client() as back:
        publish(back, 1)
        assert fleet.connections()[0] == 1
    for node, start in zip((newer, rabbitmq), before, strict=True):
        warnings = [line for line in node.log[start:].splitlines() if "[warning]" in line or "[error]" in line]
        assert warnings == []


def test_a_silent_broker_is_passed_over(start_fleet: StartFleet, own: OwnBroker, rabbitmq: RabbitMQ) -> None:
    """It is stopped, so that its system accepts connections which nobody answers."""
    fleet = start_fleet(own.port, rabbitmq.port, connect_timeout=1.0)
    os.kill(own.pid, signal.SIGSTOP)
    try:
        with fleet.client() as connection:
            publish(connection, 20)
            first, second = fleet.members()
            assert (first["retries"], first["connections"], second["connections"]) == (1, 0, 1)
            assert "did not answer within 1 s" in first["last_failure"]
    finally:
        os.kill(own.pid, signal.SIGCONT)


def test_a_refused_login_is_tried_nowhere_else(start_fleet: StartFleet, newer: RabbitMQ, rabbitmq: RabbitMQ) -> None:
    fleet = start_fleet(newer.port, rabbitmq.port)
    with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="403"):
        fleet.client("wrong")
    assert [each["clients"] for each in fleet.members()] == [1, 0]
    assert [each["failures"] for each in fleet.members()] == [0, 0]


def test_a_drained_broker_is_left_one_by_one(start_fleet: StartFleet, newer: RabbitMQ, rabbitmq: RabbitMQ) -> None:
    fleet = start_fleet(newer.port, rabbitmq.port)
    moved = [fleet.client() for _ in range(3)]
    with ControlClient(fleet.socket) as client:
        client.ask("upstreams-drain", member=f"127.0.0.1:{newer.port}", rate=100)
    for each in moved:
        fault = fault_of(each)
        assert (fault.reply_code, fault.reply_text) == (  # type: ignore[attr-defined]
            320,
            "CONNECTION_FORCED - moved to another broker: please reconnect",
        )
    with fleet.client() as later:
        publish(later, 20)
        assert fleet.connections() == [0, 1]


def test_a_reload_adds_a_member_and_keeps_clients(start_fleet: StartFleet, own: OwnBroker, rabbitmq: RabbitMQ) -> None:
    fleet = start_fleet(rabbitmq.port)
    file = fleet.output.with_suffix(".yaml")
    kept = fleet.client()
    config = json.loads(file.read_text())
    members = config["upstreams"]["rabbit"]["members"]
    config["upstreams"]["rabbit"]["members"] = [
        {"address": f"127.0.0.1:{own.port}"},
        *({**each, "priority": 1} for each in members),
    ]
    file.write_text(json.dumps(config))
    with ControlClient(fleet.socket) as client:
        assert client.ask("reload")["restart"] == []
    with fleet.client() as later:
        publish(later, 5)
        assert fleet.connections() == [1, 1]
    publish(kept, 5)
    kept.close()
