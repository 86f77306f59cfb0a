"""The fixtures of the suite: `broker` runs every test once for each broker there is."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from types import FrameType

import pytest

from tests.behaviours.client import Channel
from tests.behaviours.own_target import OwnTarget
from tests.behaviours.rabbitmq_target import RabbitMQTarget
from tests.behaviours.scene import VHOST, Scene
from tests.behaviours.target import Target
from tests.real.rabbitmq import RabbitMQ

DEADLINE = 60
"""Seconds that a test may take; far more than any needs."""

TARGETS = {"rabbitmq": "rabbitmq_target", "amqproxy": "own_target"}
"""The fixture of each broker."""

DEFINITIONS = {
    "users": [{"name": "guest", "password": "guest", "tags": "administrator"}],
    "vhosts": [{"name": VHOST}],
    "permissions": [{"user": "guest", "vhost": VHOST, "configure": ".*", "write": ".*", "read": ".*"}],
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "unsupported_on_rabbitmq(why): what RabbitMQ 3.10 itself cannot do")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs on all brokers, or on those that BEHAVIOURS_OF names."""
    if "broker" in metafunc.fixturenames:
        brokers = os.environ.get("BEHAVIOURS_OF", " ".join(TARGETS)).split()
        metafunc.parametrize("broker", brokers, indirect=True, scope="session")


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> Target:
    """A running broker, with a virtual host for the suite in which guest may do everything.

    Each is set up once, however often tests of one and of the other take turns: with RabbitMQ it takes seconds.
    """
    target: Target = request.getfixturevalue(TARGETS[request.param])
    return target


@pytest.fixture(scope="session")
def rabbitmq_target(rabbitmq: RabbitMQ) -> Iterator[Target]:
    yield from _running(RabbitMQTarget(rabbitmq, DEFINITIONS))


@pytest.fixture(scope="session")
def own_target() -> Iterator[Target]:
    yield from _running(OwnTarget(DEFINITIONS))


def _running(target: Target) -> Iterator[Target]:
    yield target
    target.stop()


@pytest.fixture
def scene(request: pytest.FixtureRequest, broker: Target) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(broker, stack)


@pytest.fixture
def is_rabbitmq(broker: Target) -> bool:
    """Whether the broker is RabbitMQ, for the few answers in which ours differs on purpose."""
    return isinstance(broker, RabbitMQTarget)


@pytest.fixture
def ch(scene: Scene) -> Channel:
    """The scene's first channel."""
    return scene.ch


@pytest.fixture
def q(scene: Scene) -> str:
    """An exclusive queue on the first channel."""
    return scene.ch.declare(scene.q, exclusive=True)


@pytest.fixture(autouse=True)
def rabbitmq_can(request: pytest.FixtureRequest) -> None:
    """Skip what RabbitMQ itself cannot do."""
    mark = request.node.get_closest_marker("unsupported_on_rabbitmq")
    if mark and request.node.callspec.params["broker"] == "rabbitmq":
        pytest.skip(f"RabbitMQ 3.10 cannot: {mark.args[0]}")


@pytest.fixture(autouse=True)
def deadline() -> Iterator[None]:
    def expire(_: int, __: FrameType | None) -> None:
        raise TimeoutError(f"the test took more than {DEADLINE} s")

    previous = signal.signal(signal.SIGALRM, expire)
    signal.alarm(DEADLINE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous)
