"""The way through the recorders and the proxy, and a deadline for every test."""

import signal
from collections.abc import Iterator
from functools import partial
from types import FrameType

import pytest

from tests.real.own import OwnBroker
from tests.real.proxy import Program, Proxy
from tests.real.rabbitmq import RabbitMQ
from tests.real.reports import REPORTING
from tests.real.route import Route, Watched
from tests.real.wire import Recorder

DEADLINE = 180
"""Seconds that a test may take; far more than any needs."""


@pytest.fixture(autouse=True)
def deadline() -> Iterator[None]:
    """A peer that stays silent would otherwise hang the run."""

    def expire(_: int, __: FrameType | None) -> None:
        raise TimeoutError(f"the test took more than {DEADLINE} s")

    previous = signal.signal(signal.SIGALRM, expire)
    signal.alarm(DEADLINE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous)


@pytest.fixture(scope="module")
def route(rabbitmq: RabbitMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Route]:
    """One proxy for a whole module, recorders around it, and behind them one that reports what passes."""
    directory = tmp_path_factory.mktemp("observed")
    observed = Proxy(directory, rabbitmq.port, *REPORTING, records=directory / "records")
    yield from _route(observed, tmp_path_factory)


@pytest.fixture(scope="module")
def own_route(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Route]:
    """The same in front of our own broker, which reports by itself what passes."""
    directory = tmp_path_factory.mktemp("observed")
    observed = OwnBroker(directory, *REPORTING, records=directory / "records")
    yield from _route(observed, tmp_path_factory)


def _route(observed: Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Route]:
    try:
        with Recorder(observed.port) as inside:
            proxy = Proxy(tmp_path_factory.mktemp("proxy"), inside.port)
            try:
                with Recorder(proxy.port) as outside:
                    yield Route(outside, proxy, inside, observed)
            finally:
                proxy.kill()
    finally:
        observed.kill()


@pytest.fixture(scope="session")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnBroker]:
    """`amqproxy broker`, which all tests share."""
    broker = OwnBroker(tmp_path_factory.mktemp("own"))
    yield broker
    broker.kill()


@pytest.fixture(scope="session")
def broker_inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnBroker]:
    """`amqproxy run --upstream broker`, which all tests share."""
    broker = OwnBroker(tmp_path_factory.mktemp("inside"), is_inside=True)
    yield broker
    broker.kill()


@pytest.fixture
def watched(route: Route, rabbitmq: RabbitMQ) -> Watched:
    """`with watched() as broker`: what happens inside goes through the proxy and is compared; see `Route`."""
    return partial(route.watched, rabbitmq.ctl)


@pytest.fixture
def own_watched(own_route: Route) -> Watched:
    """The same for our own broker."""
    observed = own_route.observed
    assert isinstance(observed, OwnBroker)
    return partial(own_route.watched, observed.ctl)
