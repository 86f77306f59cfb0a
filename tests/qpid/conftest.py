"""A Broker-J for a module of tests."""

from collections.abc import Iterator

import pytest

from tests.qpid.broker_j import BrokerJ


@pytest.fixture(scope="module")
def broker_j(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerJ]:
    broker = BrokerJ(tmp_path_factory.mktemp("broker-j"))
    yield broker
    broker.kill()
