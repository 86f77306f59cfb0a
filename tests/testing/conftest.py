"""A broker, and a proxy in front of it, without the plugin."""

from collections.abc import Iterator

import pytest

from amqproxy.testing import LocalBroker, LocalProxy


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def amqp(broker: LocalBroker) -> Iterator[LocalProxy]:
    with LocalProxy(broker.address) as proxy:
        yield proxy
