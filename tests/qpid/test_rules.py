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
