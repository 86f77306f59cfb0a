"""Qpid's clients through a proxy whose pumps give each connection back every three frames."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from amqproxy.app.pump_threads import TEST_MODE
from amqproxy.pump.pumps import are_available
from tests.qpid.apache_suite import run_suite
from tests.qpid.broker_j import BrokerJ, run_scenarios
from tests.qpid.seen import check_counted, counted
from tests.real.ports import free_port
from tests.real.proxy import Proxy

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled"),
]


@pytest.fixture
def metrics() -> int:
    return free_port()


@pytest.fixture
def proxy(
    broker_j: BrokerJ, metrics: int, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Proxy]:
    monkeypatch.setenv(TEST_MODE, "3")
    directory = tmp_path_factory.mktemp("proxy")
    proxy = Proxy(directory, broker_j.port, "--metrics", f"127.0.0.1:{metrics}", threads=2)
    yield proxy
    proxy.kill()


def check_pumped(proxy: Proxy, metrics: int) -> None:
    """Its pumps had the connections, and it has met with nothing odd."""
    found = counted(metrics)
    assert float(found['pump_returns_total{reason="test"}']) > 50
    assert float(found['pump_returns_total{reason="method"}']) > 5
    assert found.get('pump_returns_total{reason="error"}', "0.0") == "0.0"
    assert "Traceback" not in proxy.log


def test_jms(proxy: Proxy, metrics: int) -> None:
    results = run_scenarios(proxy.port)
    assert {name: result for name, result in results.items() if result != "ok"} == {}
    check_counted(metrics)
    check_pumped(proxy, metrics)


def test_qpid_python(proxy: Proxy, metrics: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    results = run_suite(proxy.port, tmp_path_factory.mktemp("suite"), "tx")
    assert results
    assert {name: result for name, result in results.items() if result != "pass"} == {}
    check_pumped(proxy, metrics)
