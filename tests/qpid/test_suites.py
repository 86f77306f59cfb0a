"""All of qpid_tests.broker_0_10 that needs no QMF: at Broker-J and at the integrated broker, straight and proxied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.qpid.apache_suite import EXTENSIONS, MODULES, run_suite
from tests.qpid.broker_j import BrokerJ
from tests.qpid.suite_differences import BROKER_J, OWN
from tests.real.own import OwnBroker
from tests.real.proxy import Proxy

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.once, pytest.mark.suites]


@pytest.fixture(scope="module", params=["broker-j", "broker-j proxied", "own", "own proxied"])
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[int, dict[str, str]]]:
    """The port of a new broker, or of a proxy in front of one, and the tests that fail there: some leave their xids."""
    is_own, is_proxied = request.param.startswith("own"), request.param.endswith("proxied")
    with ExitStack() as stack:
        directory = tmp_path_factory.mktemp("broker")
        broker = OwnBroker(directory) if is_own else BrokerJ(directory)
        stack.callback(broker.kill)
        port = broker.port
        if is_proxied:
            proxy = Proxy(tmp_path_factory.mktemp("proxy"), port)
            stack.callback(proxy.kill)
            port = proxy.port
        yield port, OWN if is_own else BROKER_J


@pytest.mark.parametrize("module", MODULES + EXTENSIONS)
def test_a_module(target: tuple[int, dict[str, str]], module: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    port, expected = target
    results = run_suite(port, tmp_path_factory.mktemp("suite"), module)
    assert any(name.startswith(f"{module}.") for name in results)
    mine = {name: result for name, result in results.items() if name.startswith(f"{module}.")}
    assert {name for name, result in mine.items() if result != "pass"} == expected.keys() & mine.keys()
