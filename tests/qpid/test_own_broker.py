"""Apache's tests of a broker and the JMS client, at the integrated broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.qpid.apache_suite import MODULES, run_client, run_suite
from tests.qpid.broker_j import run_scenarios
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
