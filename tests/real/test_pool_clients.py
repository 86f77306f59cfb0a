"""Real clients behave through a pool as they do without one."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.real.clients import Broker
from tests.real.clients.scenarios import CLIENTS, SCENARIOS
from tests.real.proxy import Proxy
from tests.real.rabbitmq import RabbitMQ

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def pooling(rabbitmq: RabbitMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A proxy whose clients share connections to RabbitMQ."""
    proxy = Proxy(tmp_path_factory.mktemp("pool"), rabbitmq.port, upstream={"pool": {}})
    yield proxy
    proxy.terminate()
    assert proxy.wait() == 0


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_clients_behave_as_without_a_pool(
    client: ModuleType, scenario: str, pooling: Proxy, rabbitmq: RabbitMQ
) -> None:
    getattr(client, scenario)(Broker(pooling.port, rabbitmq.ctl))
    assert "Traceback" not in pooling.log
