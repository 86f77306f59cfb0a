"""Apache's tests of a broker, through the proxy: what passes straight at Broker-J passes."""

from collections.abc import Iterator

import pytest

from tests.qpid.apache_suite import MODULES, run_suite
from tests.qpid.broker_j import BrokerJ
from tests.qpid.suite_differences import BROKER_J
from tests.real.proxy import Proxy

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.once]


@pytest.fixture(scope="module")
def proxy(broker_j: BrokerJ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    proxy = Proxy(tmp_path_factory.mktemp("proxy"), broker_j.port)
    yield proxy
    proxy.kill()


@pytest.mark.parametrize("module", MODULES)
def test_through_the_proxy(proxy: Proxy, module: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    results = run_suite(proxy.port, tmp_path_factory.mktemp("suite"), module)
    assert results
    failed = {name: result for name, result in results.items() if result != "pass"}
    assert {name: result for name, result in failed.items() if name not in BROKER_J} == {}
