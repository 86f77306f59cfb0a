"""Rules of the proxy on what Qpid's clients and Broker-J say to each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqproxy.amqp010.commands import ExecutionException, ExecutionResult, QueueDeclare, QueueDelete, QueueQuery
from amqproxy.amqp010.controls import ConnectionClose, ConnectionCloseOk
from tests.proxy.amqp010.interception.amqp010_stage import transfer
from tests.qpid.broker_j import BrokerJ, run_scenarios
from tests.qpid.raw_client import RawClient
from tests.real.poll import until
from tests.real.proxy import Proxy

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.once]

LOOKING = [
    {"name": "looks at all of each message", "action": "refuse", "match": {"body": "none of them has this"}},
    {"name": "looks at every name", "action": "refuse", "match": {"queue": "none"}},
    {"name": "counts", "action": "limit", "of": "messages", "rate": 1_000_000},
    {
        "name": "marks",
        "action": "rewrite",
        "match": {"method": "basic.publish"},
        "headers": {"set": {"x-seen": True}},
    },
]


def test_scenarios_with_rules_that_look_at_everything(broker_j: BrokerJ, tmp_path: Path) -> None:
    proxy = Proxy(tmp_path, broker_j.port, rules=LOOKING)
    try:
        results = run_scenarios(proxy.port)
        assert {name: result for name, result in results.items() if result != "ok"} == {}
        assert "Traceback" not in proxy.log
    finally:
        proxy.kill()


def test_names_that_the_broker_knows_differently(broker_j: BrokerJ, tmp_path: Path) -> None:
    """Clients find their queues, tags and replies, though all of them have other names at the broker.

    The names that begin with $ are Broker-J's own.
    """
    rule = {
        "name": "tenant",
        "action": "rewrite",
        "queue": {"from": "!$*", "prefix": "t:"},
        "consumer_tag": {"prefix": "c-"},
    }
    proxy = Proxy(tmp_path, broker_j.port, rules=[rule])
    try:
        results = run_scenarios(
            proxy.port, "text", "large", "properties", "request-reply", "tx-rollback", "two-consumers"
        )
        assert {name: result for name, result in results.items() if result != "ok"} == {}
    finally:
        proxy.kill()


def test_a_refused_message_is_an_error_to_its_sender_only(broker_j: BrokerJ, tmp_path: Path) -> None:
    rules = [
        {
            "name": "no maps",
            "action": "refuse",
            "match": {"method": "basic.publish", "properties": {"content_type": "amqp/map"}},
        },
        {
            "name": "slow",
            "action": "fault",
            "match": {"method": "basic.deliver"},
            "fault": {"kind": "delay", "seconds": 0.05},
        },
        {
            "name": "twice",
            "action": "fault",
            "match": {"method": "tx.commit"},
            "fault": {"kind": "delay", "seconds": 0.1},
        },
    ]
    proxy = Proxy(tmp_path, broker_j.port, rules=rules)
    try:
        results = run_scenarios(proxy.port, "map", "text", "bytes", "tx-commit")
        assert "no maps" in results.pop("map")
        assert set(results.values()) == {"ok"}
        until(lambda: "refused" in proxy.log, "the refusal in the log")
    finally:
        proxy.kill()


@pytest.mark.parametrize("through_proxy", [False, True])
@pytest.mark.parametrize(("destination", "key"), [("secret", "any"), ("no-such-exchange", "secret"), ("", "secret")])
def test_a_destination_that_is_no_exchange_is_judged_by_what_becomes_of_it(
    broker_j: BrokerJ, tmp_path: Path, destination: str, key: str, through_proxy: bool
) -> None:
    rule = {"name": "no", "action": "refuse", "match": {"method": "basic.publish", "queue": "secret"}}
    proxy = Proxy(tmp_path, broker_j.port, rules=[rule])
    client = RawClient(proxy.port if through_proxy else broker_j.port)
    try:
        client.say(QueueDeclare("secret", auto_delete=True, exclusive=True))
        client.send(transfer(destination=destination, routing_key=key))
        client.say(QueueQuery("secret"))
        answer = client.wait_for("execution.result", "execution.exception")
        if through_proxy:
            assert isinstance(answer, ExecutionException)
            assert answer.error_code == 403
        else:
            assert isinstance(answer, ExecutionResult)
            assert answer.value.message_count == 1, "so Broker-J routes it"
    finally:
        client.close()
        proxy.kill()


@pytest.mark.parametrize("through_proxy", [False, True])
@pytest.mark.parametrize(("destination", "key"), [("no-such-exchange", "other:q"), ("other:q", "any")])
def test_tenants_do_not_meet_by_a_destination_that_is_no_exchange(
    broker_j: BrokerJ, tmp_path: Path, destination: str, key: str, through_proxy: bool
) -> None:
    prefix = {"prefix": "{user}:"}
    rule = {"name": "tenants", "action": "rewrite", "queue": prefix, "exchange": prefix if key != "any" else None}
    rules = [{name: value for name, value in rule.items() if value is not None}]
    proxy = Proxy(tmp_path, broker_j.port, rules=rules)
    other = RawClient(broker_j.port)
    client = RawClient(proxy.port if through_proxy else broker_j.port)
    try:
        other.say(QueueDeclare("other:q", auto_delete=True, exclusive=True))
        client.send(transfer(destination=destination, routing_key=key))
        client.say(QueueQuery("q"))
        answer = client.wait_for("execution.result", "execution.exception")
        assert isinstance(answer, ExecutionException) is through_proxy
        other.say(QueueQuery("other:q"))
        found = other.wait_for("execution.result")
        assert found.value.message_count == (0 if through_proxy else 1)
    finally:
        other.close()
        client.close()
        proxy.kill()


def test_a_drain_closes_the_connection_once_what_has_begun_is_sent(broker_j: BrokerJ, tmp_path: Path) -> None:
    """The rest of a message is taken by the broker before both are asked to close; rules may come and go before."""
    proxy = Proxy(tmp_path, broker_j.port)
    client, beside = RawClient(proxy.port), RawClient(broker_j.port)
    try:
        client.say(QueueDeclare("drained"))
        client.say(QueueQuery("drained"))
        client.wait_for("execution.result")
        message = transfer(destination="", routing_key="drained", body=b"x" * 100_000)
        client.send(message[:50_000])
        proxy.process.terminate()
        client.send(message[50_000:])
        close = client.wait_for("connection.close")
        assert isinstance(close, ConnectionClose)
        assert (close.reply_code, close.reply_text) == (320, "the proxy is shutting down")
        client.say(ConnectionCloseOk(), 0)
        assert proxy.process.wait(30) == 0
        for _ in range(100):
            beside.say(QueueQuery("drained"))
            answer = beside.wait_for("execution.result")
            assert isinstance(answer, ExecutionResult)
            if answer.value.message_count:
                break
        assert answer.value.message_count == 1
        beside.say(QueueDelete("drained"))
        beside.say(QueueQuery("drained"))
        beside.wait_for("execution.result")
    finally:
        client.close()
        beside.close()
        proxy.kill()
