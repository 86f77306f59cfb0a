"""Apache's tests of a broker and the JMS client, at the integrated broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from amqproxy.amqp010.commands import (
    ExchangeBind,
    ExecutionResult,
    ExecutionSync,
    MessageAccept,
    MessageFlow,
    MessageSubscribe,
    QueueDeclare,
    QueueDelete,
    QueueQuery,
)
from amqproxy.amqp010.controls import SessionCompleted
from amqproxy.amqp010.domains import CreditUnit
from amqproxy.amqp010.sequence import SequenceSet
from tests.proxy.amqp010.interception.amqp010_stage import transfer
from tests.qpid.apache_suite import MODULES, run_client, run_suite
from tests.qpid.broker_j import run_scenarios
from tests.qpid.raw_client import RawClient
from tests.qpid.seen import check_counted, check_seen
from tests.qpid.suite_differences import OWN
from tests.qpid.watched_port import WatchedPort
from tests.real.own import OwnBroker
from tests.real.ports import free_port
from tests.real.proxy import Proxy

pytestmark = [pytest.mark.real, pytest.mark.slow]

BROKEN_BY_SUITE = {
    "10.2 message.accept",
    "10.2 message.acquire",  # of what needs no accept
    "10.2 message.acquire, one-to-one",  # which the broker answers as Qpid's does
    "10.2 message.cancel, subscription-not-found",
    "10.2 message.subscribe, unique-subscriber-destination",
    "10.4 dtx.select",
    "10.4 dtx.end, not-associated",
    "10.4 dtx.end, suspend-and-fail",
    "10.4 dtx.start, join-and-resume",
}
"""The rules that the suite breaks, nearly all of them to see the exception."""


SEEN = ("text", "large", "headers", "recover", "tx-commit", "no-queue", "dtx-commit")


THROUGH_PROXY = ("browser", "selector", "selecting-browser", "no-queue", "tx-rollback", "recover", "dtx-rollback")
"""All of them pass through it at Broker-J, too; these are where the two brokers do most by themselves."""


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnBroker]:
    broker = OwnBroker(tmp_path_factory.mktemp("own"))
    yield broker
    broker.kill()


@pytest.fixture
def watched(own_broker: OwnBroker) -> Iterator[WatchedPort]:
    port = WatchedPort(own_broker.port)
    yield port
    port.close()


@pytest.mark.once
def test_apache_suite(watched: WatchedPort, tmp_path_factory: pytest.TempPathFactory) -> None:
    results = run_suite(watched.port, tmp_path_factory.mktemp("suite"), *MODULES)
    assert {name: result for name, result in results.items() if result != "pass" and name not in OWN} == {}
    assert {name for name in OWN if results.get(name) == "pass"} == set()
    assert watched.broken_rules() <= BROKEN_BY_SUITE


@pytest.mark.once
def test_jms(watched: WatchedPort) -> None:
    results = run_scenarios(watched.port, vhost="/")
    assert {name: result for name, result in results.items() if result != "ok"} == {}
    assert watched.broken_rules() <= {"10.2 message.accept, acquisition"}, "a browser accepts what it has not acquired"


@pytest.fixture(scope="module")
def proxy(own_broker: OwnBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    proxy = Proxy(tmp_path_factory.mktemp("proxy"), own_broker.port)
    yield proxy
    proxy.kill()
    assert "Traceback" not in proxy.log


@pytest.mark.once
def test_jms_through_the_proxy(proxy: Proxy) -> None:
    results = run_scenarios(proxy.port, *THROUGH_PROXY, vhost="/")
    assert {name: result for name, result in results.items() if result != "ok"} == {}


@pytest.mark.once
@pytest.mark.parametrize("program", ["flow_and_resume.py2", "messaging.py2"])
def test_qpid_python_straight_and_through_the_proxy(own_broker: OwnBroker, proxy: Proxy, program: str) -> None:
    assert run_client(program, own_broker.port, proxy.port) == "ok\nok\n"


@pytest.mark.once
def test_what_passes_is_seen(tmp_path: Path) -> None:
    metrics = free_port()
    options = ("--print", "--json", "--record", str(tmp_path / "captures"), "--metrics", f"127.0.0.1:{metrics}")
    broker = OwnBroker(tmp_path, *options, records=tmp_path / "records")
    try:
        results = run_scenarios(broker.port, *SEEN, vhost="/")
        assert {name: result for name, result in results.items() if result != "ok"} == {}
        check_counted(metrics)
        check_seen(broker, tmp_path / "captures")
    finally:
        broker.kill()


DELETE_ID = 12
"""The command that deletes the queue in the test below, which is complete once the disk has it."""


def test_what_a_client_holds_of_a_deleted_queue_survives_kill_9(tmp_path: Path) -> None:
    """It is at the alternate exchange after the restart; Broker-J 9.2 sends it there once the client is gone."""
    options = ("--data", str(tmp_path / "data"))
    broker = OwnBroker(tmp_path, *options)
    try:
        client = RawClient(broker.port, "/")
        client.say(QueueDeclare("kept", durable=True))
        client.say(ExchangeBind("kept", "amq.fanout", ""))
        client.say(QueueDeclare("gone", "amq.fanout", durable=True))
        for number in range(5):
            properties = {"routing_key": "gone", "delivery_mode": 2}
            client.send(transfer(destination="", body=b"%d" % number, **properties))
        client.say(MessageSubscribe("gone", "d", 0, 0))
        client.say(MessageFlow("d", CreditUnit.MESSAGE, 3))
        client.say(MessageFlow("d", CreditUnit.BYTE, 0xFFFF_FFFF))
        for _ in range(3):
            client.wait_for("message.transfer")
        client.say(MessageAccept(SequenceSet.of([0])))
        client.say(QueueDelete("gone"))
        client.say(ExecutionSync())
        while not is_complete(client, DELETE_ID):
            pass
        client.say(QueueQuery("kept"))
        assert count(client) == 2
    finally:
        broker.kill()
    client.close()
    broker = OwnBroker(tmp_path, *options)
    try:
        client = RawClient(broker.port, "/")
        client.say(QueueQuery("kept"))
        assert count(client) == 4
        client.say(QueueQuery("gone"))
        assert count(client) is None
        client.close()
    finally:
        broker.kill()


def is_complete(client: RawClient, command_id: int) -> bool:
    """Whether the next session.completed names a command."""
    completed = client.wait_for("session.completed")
    assert isinstance(completed, SessionCompleted)
    return command_id in (completed.commands or ())


def count(client: RawClient) -> int | None:
    """The messages that the next answer to a queue.query names."""
    result = client.wait_for("execution.result")
    assert isinstance(result, ExecutionResult)
    return result.value.message_count  # type: ignore[no-any-return]
