"""Real clients through a proxy whose pumps give each connection back every three frames; `make hand-overs` has all."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from types import ModuleType

import pytest

from amqproxy.app.pump_threads import TEST_MODE
from amqproxy.pump.pumps import are_available
from tests.real.clients import Broker
from tests.real.clients.scenarios import CLIENTS
from tests.real.own import OwnBroker
from tests.real.ports import free_port
from tests.real.proxy import Proxy
from tests.real.rabbitmq import RabbitMQ
from tests.real.wire import Recorder, assert_identical

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled"),
]

FORCED = re.compile(r'^amqproxy_pump_returns_total{reason="test"} (\S+)$', re.MULTILINE)


@pytest.fixture(scope="module", params=["rabbitmq", "own_broker"])
def broker(request: pytest.FixtureRequest) -> RabbitMQ | OwnBroker:
    found: RabbitMQ | OwnBroker = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module")
def metrics() -> int:
    return free_port()


@pytest.fixture(scope="module")
def way(
    broker: RabbitMQ | OwnBroker, metrics: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Recorder, Proxy, Recorder]]:
    """A recorder, the proxy, and another recorder before the broker."""
    with Recorder(broker.port) as inside:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(TEST_MODE, "3")
            proxy = Proxy(tmp_path_factory.mktemp("proxy"), inside.port, "--metrics", f"127.0.0.1:{metrics}")
        try:
            with Recorder(proxy.port) as outside:
                yield outside, proxy, inside
        finally:
            proxy.kill()


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_messages_and_their_acknowledgements(
    client: ModuleType, broker: RabbitMQ | OwnBroker, way: tuple[Recorder, Proxy, Recorder], metrics: int
) -> None:
    outside, proxy, inside = way
    before = forced(metrics)
    client.publish_consume(Broker(outside.port, broker.ctl))
    assert_identical(outside.take(), inside.take())
    assert forced(metrics) > before + 5
    assert "Traceback" not in proxy.log


def forced(port: int) -> float:
    """How often connections have changed owner because a test wants it."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        found = FORCED.search(answer.read().decode())
    return float(found[1]) if found else 0.0
