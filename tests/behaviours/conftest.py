"""The fixtures of the suite: `broker` runs every test once for each broker there is."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from types import FrameType
from typing import Any

import pytest

from tests.behaviours.client import Channel
from tests.behaviours.own_target import OwnTarget
from tests.behaviours.rabbitmq_target import RabbitMQTarget
from tests.behaviours.scene import VHOST, Scene
from tests.behaviours.target import Target
from tests.real.rabbitmq import RabbitMQ, running
from tests.real.rabbitmq_installation import installation

DEADLINE = 60
"""Seconds that a test may take; far more than any needs."""

VERSIONS = ("3.10",)
"""Each minor version of RabbitMQ whose behaviours are known; ours answers as each of them."""

TARGETS = tuple(f"{product}-{version}" for product in ("rabbitmq", "amqproxy") for version in VERSIONS)

DEFINITIONS = {
    "users": [{"name": "guest", "password": "guest", "tags": "administrator"}],
    "vhosts": [{"name": VHOST}],
    "permissions": [{"user": "guest", "vhost": VHOST, "configure": ".*", "write": ".*", "read": ".*"}],
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "unsupported_on_rabbitmq(why): what RabbitMQ 3.10 itself cannot do")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs on all brokers, or on those whose names begin with a word of BEHAVIOURS_OF."""
    if "broker" in metafunc.fixturenames:
        wanted = tuple(os.environ.get("BEHAVIOURS_OF", "").split()) or TARGETS
        brokers = [each for each in TARGETS if each.startswith(wanted)]
        metafunc.parametrize("broker", brokers, indirect=True, scope="session")


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> Target:
    """A running broker, with a virtual host for the suite in which guest may do everything.

    Each is set up once, however often tests of one and of the other take turns: with RabbitMQ it takes seconds.
    """
    target: Target = request.getfixturevalue(request.param)
    return target


@pytest.fixture(scope="session", name="rabbitmq-3.10")
def rabbitmq_3_10(rabbitmq: RabbitMQ) -> Iterator[Target]:
    yield from _running(RabbitMQTarget(rabbitmq, DEFINITIONS))


def _later_rabbitmq(version: str) -> Any:
    """The fixture of a RabbitMQ that the tests of other directories do not have."""

    @pytest.fixture(scope="session", name=f"rabbitmq-{version}")
    def later_rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
        with running(tmp_path_factory.mktemp("rabbitmq"), installation(version)) as node:
            yield from _running(RabbitMQTarget(node, DEFINITIONS))

    return later_rabbitmq


rabbitmq_4_0, rabbitmq_4_3 = _later_rabbitmq("4.0"), _later_rabbitmq("4.3")


@pytest.fixture(scope="session", name="amqproxy-3.10")
def amqproxy_3_10() -> Iterator[Target]:
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
    if mark and request.node.callspec.params["broker"].startswith("rabbitmq"):
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
