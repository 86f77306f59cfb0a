"""Clients of earlier RabbitMQ versions fail on 4.3 with transient queues denied, and work through the bridge."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pika.exceptions import AMQPError, ChannelClosedByBroker, ConnectionClosedByBroker

from tests.real import raw
from tests.real.applications import APPLICATIONS, Application
from tests.real.celery_run import three_tasks
from tests.real.celery_worker import ROOT
from tests.real.clients.amqplib_client import HERE, installed
from tests.real.old_celery import old_celery
from tests.real.pika_connection import connected
from tests.real.poll import DEADLINE, until
from tests.real.proxy import Proxy
from tests.real.rabbitmq import RabbitMQ, running
from tests.real.rabbitmq_installation import installation
from tests.real.raw import Peer

pytestmark = [pytest.mark.real, pytest.mark.once]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    settings = {"deprecated_features.permit.transient_nonexcl_queues": "false"}
    with running(tmp_path_factory.mktemp("rabbitmq"), installation("4.3"), settings) as node:
        yield node


@pytest.fixture(scope="module")
def bridge(node: RabbitMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    proxy = Proxy(tmp_path_factory.mktemp("proxy"), node.port, upstream={"bridge": "rabbitmq-4"})
    yield proxy
    proxy.kill()


def queue_of(node: RabbitMQ, name: str) -> dict[str, Any]:
    columns = ("name", "durable", "exclusive", "auto_delete", "arguments")
    queues = json.loads(node.ctl("list_queues", "--formatter", "json", *columns))
    (found,) = [each for each in queues if each["name"] == name]
    return found  # type: ignore[no-any-return]


# --- frames of 4096 bytes


def amqplib(port: int) -> subprocess.CompletedProcess[str]:
    command = [installed(), "old-amqplib.js", str(port)]
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False, timeout=DEADLINE)


def test_amqplib_is_cut_off_without_the_bridge(node: RabbitMQ) -> None:
    assert "ECONNRESET" in amqplib(node.port).stderr


def test_amqplib_publishes_and_consumes_through_the_bridge(bridge: Proxy) -> None:
    done = amqplib(bridge.port)
    assert (done.stdout, done.stderr) == ("100000\n", "")


# --- transient queues


def test_a_transient_queue_ends_the_connection_without_the_bridge(node: RabbitMQ) -> None:
    with (
        connected(node) as connection,
        pytest.raises(ConnectionClosedByBroker, match="transient_nonexcl_queues"),
    ):
        connection.channel().queue_declare("transient")


def test_transient_queues_are_durable_and_expire_through_the_bridge(node: RabbitMQ, bridge: Proxy) -> None:
    with connected(bridge) as one, connected(bridge) as other:
        one.channel().queue_declare("transient", auto_delete=True)
        channel = other.channel()
        channel.queue_declare("transient", auto_delete=True)
        channel.queue_declare("transient", passive=True)
        found = queue_of(node, "transient")
        assert (found["durable"], found["exclusive"], found["auto_delete"]) == (True, False, True)
        assert ["x-expires", 86_400_000] in [each[:1] + each[-1:] for each in found["arguments"]]
        channel.queue_delete("transient")


def test_queues_that_the_server_names_are_exclusive_or_expire_through_the_bridge(node: RabbitMQ, bridge: Proxy) -> None:
    with connected(bridge) as connection:
        channel = connection.channel()
        for auto_delete in (True, False):
            name = channel.queue_declare("", auto_delete=auto_delete).method.queue
            channel.queue_declare(name, passive=True)
            found = queue_of(node, name)
            assert (found["exclusive"], found["durable"]) == (auto_delete, not auto_delete)
            channel.queue_delete(name)


def test_a_celery_worker_fails_without_the_bridge(
    node: RabbitMQ, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = tmp_path / "worker.log"
    environment = os.environ | {
        "BROKER": f"amqp://guest:guest@127.0.0.1:{node.port}//",
        "PYTHONPATH": old_celery(tmp_path_factory.getbasetemp() / "celery"),
    }
    command = [sys.executable, "-m", "celery", "--app", "tests.real.celery_defaults", "worker", "--pool", "solo"]
    with log.open("wb") as output:
        worker = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output)
    try:
        until(lambda: "transient_nonexcl_queues" in log.read_text(), "the worker to be refused")
        assert " ready." not in log.read_text()
    finally:
        worker.kill()
        worker.wait()


def test_a_celery_worker_does_its_tasks_through_the_bridge(
    bridge: Proxy, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", old_celery(tmp_path_factory.getbasetemp() / "celery"))
    three_tasks(bridge.port, is_careful=False, log=tmp_path / "worker.log")


# --- applications of other languages


REFUSED = re.compile(r"\b541\b|INTERNAL_ERROR|Connection reset")
"""RabbitMQ closes the socket behind its refusal, so that Java's client may see only that."""


@pytest.mark.parametrize("application", APPLICATIONS, ids=str)
def test_an_application_fails_without_the_bridge(node: RabbitMQ, application: Application, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(application.command(node.port), stdout=output, stderr=output)
    try:
        until(lambda: REFUSED.search(log.read_text()), "the application to be refused")
        assert application.greeting not in log.read_text()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("application", APPLICATIONS, ids=str)
def test_an_application_works_through_the_bridge(node: RabbitMQ, bridge: Proxy, application: Application) -> None:
    command = application.command(bridge.port)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE)
    with connected(node) as connection:
        connection.channel().queue_delete(application.name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines().count(application.greeting) == 1, done.stdout + done.stderr


# --- arguments, prefetch


@pytest.mark.parametrize(
    "argument",
    [{"x-queue-version": 1}, {"x-queue-master-locator": "min-masters"}, {"x-consumer-timeout": 600_000}],
    ids=str,
)
def test_refused_arguments_are_left_out(node: RabbitMQ, bridge: Proxy, argument: dict[str, Any]) -> None:
    with (
        connected(node) as connection,
        pytest.raises((ChannelClosedByBroker, ConnectionClosedByBroker)),
    ):
        connection.channel().queue_declare("arguments", durable=True, arguments=argument)
    with connected(bridge) as connection:
        channel = connection.channel()
        for arguments in (argument, {}, argument):
            channel.queue_declare("arguments", durable=True, arguments=arguments)
        channel.queue_delete("arguments")


@pytest.mark.parametrize(
    "argument", [{"x-queue-mode": "lazy"}, {"x-ha-policy": "all"}, {"x-queue-version": 2}], ids=str
)
def test_arguments_that_rabbitmq_takes_are_left_alone(node: RabbitMQ, bridge: Proxy, argument: dict[str, Any]) -> None:
    with connected(node) as direct, connected(bridge) as connection:
        direct.channel().queue_declare("arguments", durable=True, arguments=argument)
        channel = connection.channel()
        channel.queue_declare("arguments", durable=True, arguments=argument)
        channel.queue_delete("arguments")


def test_a_prefetch_of_the_channel_is_named_in_the_log(node: RabbitMQ, bridge: Proxy) -> None:
    """Each of two consumers gets that many, with the bridge as without."""
    got = []
    for broker in (node, bridge):
        with connected(broker) as connection:
            channel = connection.channel()
            channel.queue_declare("prefetch", durable=True)
            for _ in range(10):
                channel.basic_publish("", "prefetch", b"")
            channel.basic_qos(prefetch_count=2, global_qos=True)
            received: list[str] = []
            for _ in range(2):
                channel.basic_consume("prefetch", partial(note_tag, received))
            while len(received) < 4:
                connection.process_data_events(0.05)
            got.append(sorted(received.count(tag) for tag in set(received)))
            channel.queue_delete("prefetch")
    assert got == [[2, 2], [2, 2]]
    until(lambda: "prefetch of 2 for a channel applies to each of its consumers" in bridge.log, "the log")


def note_tag(tags: list[str], _: object, method: Any, *rest: object) -> None:
    tags.append(method.consumer_tag)


# --- sizes


def test_a_message_that_is_too_large_is_refused_alike(node: RabbitMQ, bridge: Proxy) -> None:
    texts = []
    for broker in (node, bridge):
        with connected(broker) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            with pytest.raises(AMQPError) as refusal:
                channel.basic_publish("", "nowhere", bytes(16_777_217))
        texts.append(str(refusal.value))
    assert texts[0] == texts[1]
    assert "message size 16777217 is larger than configured max size 16777216" in texts[0]


def test_a_message_that_is_too_large_is_refused_at_its_header(bridge: Proxy) -> None:
    """Before any of its body is sent; the body is dropped, and another channel goes on."""
    size = 16_777_217
    with Peer.opened(bridge.port, 1, 2) as peer:
        peer.send(raw.publish(1, "nowhere"), raw.header(1, size))
        close = peer.expect(*raw.CHANNEL_CLOSE).close
        assert close is not None
        text = f"PRECONDITION_FAILED - message size {size} is larger than configured max size {size - 1}"
        assert (close.channel, close.code, close.text) == (1, 406, text)
        queue = peer.declare(2)
        peer.send(raw.body(1, bytes(100_000)), raw.message(2, queue, b"small"), raw.body(1, bytes(100_000)))
        peer.send(raw.method(1, 20, 41), raw.channel_open(1))
        peer.expect(20, 11)
        peer.send(raw.consume(2, queue))
        peer.expect(60, 21)
        peer.expect(60, 60)
