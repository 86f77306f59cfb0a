"""The Qpid JMS client over AMQP 0-10: what it does straight, it does through the proxy, where it is seen."""

import pytest

from tests.qpid.broker_j import BrokerJ, run_scenarios
from tests.qpid.seen import check_counted, check_seen
from tests.real.ports import free_port
from tests.real.proxy import Proxy

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.mark.once
def test_straight(broker_j: BrokerJ) -> None:
    results = run_scenarios(broker_j.port)
    assert {name: result for name, result in results.items() if result != "ok"} == {}


def test_through_the_proxy(broker_j: BrokerJ, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory, metrics = tmp_path_factory.mktemp("proxy"), free_port()
    options = ("--print", "--json", "--record", str(directory / "captures"), "--metrics", f"127.0.0.1:{metrics}")
    proxy = Proxy(directory, broker_j.port, *options, records=directory / "records")
    try:
        results = run_scenarios(proxy.port)
        assert {name: result for name, result in results.items() if result != "ok"} == {}
        check_counted(metrics)
        check_seen(proxy, directory / "captures")
    finally:
        proxy.kill()
