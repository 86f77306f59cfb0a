"""Apache's tests of a broker, through the proxy: what passes straight at Broker-J passes."""

from collections.abc import Iterator

import pytest

from tests.qpid.apache_suite import MODULES, run_suite
from tests.qpid.broker_j import BrokerJ
from tests.real.proxy import Proxy

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.once]

FAILS_STRAIGHT = {
    "dtx.DtxTests.test_forget_xid_on_completion",
    "dtx.DtxTests.test_get_timeout",
    "dtx.DtxTests.test_implicit_end",
    "dtx.DtxTests.test_simple_commit",
    "dtx.DtxTests.test_simple_prepare_commit",
    "dtx.DtxTests.test_simple_prepare_rollback",
    "dtx.DtxTests.test_simple_rollback",
    "exchange.AutodeleteTests.testAutodeleteFanout",
    "exchange.AutodeleteTests.testAutodeleteHeaders",
    "message.MessageTests.test_ack",
    "message.MessageTests.test_acquire",
    "message.MessageTests.test_acquire_with_no_accept_and_credit_flow",
    "message.MessageTests.test_credit_flow_bytes",
    "message.MessageTests.test_no_local_awkward",
    "message.MessageTests.test_window_flow_bytes",
    "queue.QueueTests.test_declare_exclusive",
    "queue.QueueTests.test_declare_exclusive_alreadyinuse",
}
"""What Broker-J 9.2.0 does otherwise than Qpid's C++ broker, for which these tests were written."""


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
    assert {name: result for name, result in failed.items() if name not in FAILS_STRAIGHT} == {}
