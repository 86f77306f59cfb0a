"""Real clients, straight to RabbitMQ and through the proxy, which must not change an octet."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import NamedTuple

import pytest

from tests.real.clients import Broker, aio_pika_client, amqplib_client, kombu_client, pika_client
from tests.real.poll import until
from tests.real.proxy import Proxy
from tests.real.rabbitmq import RabbitMQ
from tests.real.wire import Recorder, assert_identical

pytestmark = pytest.mark.real

CLIENTS = {"pika": pika_client, "aio-pika": aio_pika_client, "kombu": kombu_client, "amqplib": amqplib_client}
SCENARIOS = [
    "publish_consume",
    "confirms",
    "nack",
    "tx",
    "returns",
    "big_bodies",
    "many_channels",
    "queues",
    "blocked",
    "field_tables",
    "channel_error",
    "connection_error",
]

Watched = Callable[[], AbstractContextManager[Broker]]


class Route(NamedTuple):
    """client → `outside` → `proxy` → `inside` → RabbitMQ."""

    outside: Recorder
    proxy: Proxy
    inside: Recorder


@pytest.fixture(scope="module")
def route(rabbitmq: RabbitMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Route]:
    with Recorder(rabbitmq.port) as inside:
        proxy = Proxy(tmp_path_factory.mktemp("proxy"), inside.port)
        try:
            with Recorder(proxy.port) as outside:
                yield Route(outside, proxy, inside)
        finally:
            proxy.kill()


@pytest.fixture
def watched(route: Route, rabbitmq: RabbitMQ) -> Watched:
    """`with watched() as broker` asserts that what happened inside was the same on both sides of the proxy."""

    @contextmanager
    def watch() -> Iterator[Broker]:
        idle = route.proxy.descriptors()
        try:
            yield Broker(route.outside.port, rabbitmq.ctl)
        finally:
            outside, inside = route.outside.take(), route.inside.take()
        assert outside, "nothing went through the proxy"
        assert_identical(outside, inside)
        until(lambda: route.proxy.descriptors() <= idle, "the proxy to let go of every socket")
        assert "Traceback" not in route.proxy.log

    return watch


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_straight_to_rabbitmq(client: ModuleType, scenario: str, rabbitmq: RabbitMQ) -> None:
    getattr(client, scenario)(Broker(rabbitmq.port, rabbitmq.ctl))


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_through_the_proxy(client: ModuleType, scenario: str, watched: Watched) -> None:
    with watched() as broker:
        getattr(client, scenario)(broker)


@pytest.mark.parametrize("seconds", [8, pytest.param(60, marks=pytest.mark.soak)])
def test_heartbeats_keep_an_idle_connection(seconds: float, watched: Watched) -> None:
    """Every client at once: the interval is two seconds, so a lost heartbeat ends a connection within four."""
    with watched() as broker, ThreadPoolExecutor() as pool:
        for done in [pool.submit(client.idle, broker, seconds) for client in CLIENTS.values()]:
            done.result()
