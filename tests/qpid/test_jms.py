"""The Qpid JMS client over AMQP 0-10: what it does straight, it does through the proxy."""

import pytest

from tests.qpid.broker_j import BrokerJ, run_scenarios
from tests.real.proxy import Proxy

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.mark.once
def test_straight(broker_j: BrokerJ) -> None:
    results = run_scenarios(broker_j.port)
    assert {name: result for name, result in results.items() if result != "ok"} == {}


def test_through_the_proxy(broker_j: BrokerJ, tmp_path_factory: pytest.TempPathFactory) -> None:
    proxy = Proxy(tmp_path_factory.mktemp("proxy"), broker_j.port)
    try:
        results = run_scenarios(proxy.port)
        assert {name: result for name, result in results.items() if result != "ok"} == {}
    finally:
        proxy.kill()
