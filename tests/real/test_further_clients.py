"""Clients that speak in other ways: AMQPStorm, and the command-line tools of rabbitmq-c."""

from collections.abc import Iterator

import pytest

from tests.real.clients import Broker, amqpstorm_client, rabbitmq_c_client
from tests.real.clients.scenarios import AMQPSTORM_SCENARIOS
from tests.real.own import OwnBroker
from tests.real.route import Watched

pytestmark = [pytest.mark.real, pytest.mark.once]


@pytest.fixture(
    params=[pytest.param("rabbitmq", marks=pytest.mark.once), "own", "inside", "proxy", "proxy to rabbitmq"]
)
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    if request.param.startswith("proxy"):
        watched: Watched = request.getfixturevalue("watched" if "rabbitmq" in request.param else "own_watched")
        with watched() as broker:
            yield broker
    else:
        name = {"rabbitmq": "rabbitmq", "own": "own_broker", "inside": "broker_inside"}[request.param]
        found: OwnBroker = request.getfixturevalue(name)
        yield Broker(found.port, found.ctl)


@pytest.mark.parametrize("scenario", AMQPSTORM_SCENARIOS)
def test_amqpstorm(scenario: str, broker: Broker) -> None:
    getattr(amqpstorm_client, scenario)(broker)


def test_rabbitmq_c(broker: Broker) -> None:
    rabbitmq_c_client.every_tool(broker)
