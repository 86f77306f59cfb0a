"""Apache's tests of a broker and the JMS client, at the integrated broker."""

from collections.abc import Iterator

import pytest

from tests.qpid.apache_suite import MODULES, run_suite
from tests.qpid.broker_j import run_scenarios
from tests.real.own import OwnBroker

pytestmark = [pytest.mark.real, pytest.mark.slow]

FAILS = {
    "dtx.DtxTests.test_get_timeout": "a default timeout of 60 s; Broker-J has none either",
    "exchange.ExchangeTests.testHeadersBindNoMatchArg": "bindings without x-match, which as in RabbitMQ want all",
    "message.MessageTests.test_ack": "a mistake of its own",
    "message.MessageTests.test_credit_flow_bytes": "the size of the C++ broker's headers",
    "message.MessageTests.test_no_local": "an extension of Qpid",
    "message.MessageTests.test_no_local_awkward": "an extension of Qpid",
    "message.MessageTests.test_no_local_exclusive_subscribe": "an extension of Qpid",
    "message.MessageTests.test_window_flow_bytes": "the size of the C++ broker's headers",
}
"""What the integrated broker does otherwise, or not at all."""


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnBroker]:
    broker = OwnBroker(tmp_path_factory.mktemp("own"))
    yield broker
    broker.kill()


@pytest.mark.once
def test_apache_suite(own_broker: OwnBroker, tmp_path_factory: pytest.TempPathFactory) -> None:
    results = run_suite(own_broker.port, tmp_path_factory.mktemp("suite"), *MODULES)
    assert {name: result for name, result in results.items() if result != "pass" and name not in FAILS} == {}
    assert {name for name in FAILS if results[name] == "pass"} == set()


@pytest.mark.once
def test_jms(own_broker: OwnBroker) -> None:
    results = run_scenarios(own_broker.port, vhost="/")
    assert {name: result for name, result in results.items() if result != "ok"} == {}
