"""Real clients, straight to RabbitMQ and to our own broker, and through the proxy, which must not change a byte."""

from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import pytest

from tests.real.clients import Broker
from tests.real.clients.scenarios import CLIENTS, SCENARIOS
from tests.real.own import OwnBroker
from tests.real.rabbitmq import RabbitMQ
from tests.real.route import Watched

pytestmark = pytest.mark.real


@pytest.mark.once
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_straight_to_rabbitmq(client: ModuleType, scenario: str, rabbitmq: RabbitMQ) -> None:
    getattr(client, scenario)(Broker(rabbitmq.port, rabbitmq.ctl))


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_through_the_proxy(client: ModuleType, scenario: str, watched: Watched) -> None:
    with watched() as broker:
        getattr(client, scenario)(broker)


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_straight_to_our_broker(client: ModuleType, scenario: str, own_broker: OwnBroker) -> None:
    getattr(client, scenario)(Broker(own_broker.port, own_broker.ctl))
    assert "Traceback" not in own_broker.log


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_through_the_proxy_to_our_broker(client: ModuleType, scenario: str, own_watched: Watched) -> None:
    with own_watched() as broker:
        getattr(client, scenario)(broker)


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_to_the_broker_inside_the_proxy(client: ModuleType, scenario: str, broker_inside: OwnBroker) -> None:
    getattr(client, scenario)(Broker(broker_inside.port, broker_inside.ctl))
    assert "Traceback" not in broker_inside.log


@pytest.mark.parametrize("seconds", [8, pytest.param(60, marks=pytest.mark.soak)])
def test_heartbeats_keep_an_idle_connection(
    seconds: float, watched: Watched, own_broker: OwnBroker, broker_inside: OwnBroker
) -> None:
    """Every client at once: the interval is two seconds, so a lost heartbeat ends a connection within four."""
    with watched() as through, ThreadPoolExecutor(16) as pool:
        brokers = [through, *(Broker(each.port, each.ctl) for each in (own_broker, broker_inside))]
        for done in [pool.submit(client.idle, broker, seconds) for client in CLIENTS.values() for broker in brokers]:
            done.result()
