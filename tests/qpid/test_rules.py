"""Rules of the proxy on what Qpid's clients and Broker-J say to each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.qpid.broker_j import BrokerJ, run_scenarios
from tests.real.proxy import Proxy

pytestmark = [pytest.mark.real, pytest.mark.slow]

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
        assert "refused" in proxy.log
    finally:
        proxy.kill()
