"""The fixtures of the suite: `broker` runs every test once for each broker there is."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from types import FrameType
from typing import Any

import pytest

from amqproxy.rabbitmq.profile import NEWEST, PROFILES, Profile
from amqproxy.rabbitmq.unreached import UNREACHED
from tests.behaviours.client import Channel
from tests.behaviours.own_target import OwnTarget
from tests.behaviours.rabbitmq_target import RabbitMQTarget
from tests.behaviours.scene import VHOST, Scene
from tests.behaviours.target import Target
from tests.real.rabbitmq import running
from tests.real.rabbitmq_installation import SYSTEM, chosen, installation, unpacked

DEADLINE = 60
"""Seconds that a test may take; far more than any needs."""

TARGETS = tuple(f"{product}-{version}" for product in ("rabbitmq", "amqproxy") for version in PROFILES)
"""Each version of RabbitMQ, and ours as each of them; these are fixtures, too."""

DEFINITIONS = {
    "users": [{"name": "guest", "password": "guest", "tags": "administrator"}],
    "vhosts": [{"name": VHOST}],
    "permissions": [{"user": "guest", "vhost": VHOST, "configure": ".*", "write": ".*", "read": ".*"}],
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "unsupported_on_rabbitmq(why, *versions): what RabbitMQ cannot do")
    config.addinivalue_line("markers", "needs_feature(name): a deprecated feature, which later versions deny")
    config.addinivalue_line("markers", "unreached(name): what our profiles do not do, by amqproxy.rabbitmq.unreached")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs on all brokers, or on those whose names begin with a word of BEHAVIOURS_OF."""
    if "broker" in metafunc.fixturenames:
        wanted = tuple(os.environ.get("BEHAVIOURS_OF", "").split()) or TARGETS
        brokers = [each for each in TARGETS if each.startswith(wanted)] or list(wanted)
        metafunc.parametrize("broker", brokers, indirect=True, scope="session")


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> Target:
    """A running broker, with a virtual host for the suite in which guest may do everything.

    Each is set up once, however often tests of one and of the other take turns: with RabbitMQ it takes seconds.
    """
    target: Target = request.getfixturevalue(request.param)
    return target


@pytest.fixture(scope="session", name="rabbitmq-3.10")
def rabbitmq_3_10(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with ExitStack() as stack:
        if chosen() is SYSTEM:
            node = request.getfixturevalue("rabbitmq")
        else:
            node = stack.enter_context(running(tmp_path_factory.mktemp("rabbitmq"), SYSTEM))
        yield from _running(RabbitMQTarget(node, DEFINITIONS, PROFILES["3.10"]))


def _later_rabbitmq(version: str) -> Any:
    """The fixture of a RabbitMQ that the tests of other directories do not have."""

    @pytest.fixture(scope="session", name=f"rabbitmq-{version}")
    def later_rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
        with running(tmp_path_factory.mktemp("rabbitmq"), installation(version)) as node:
            yield from _running(RabbitMQTarget(node, DEFINITIONS, PROFILES[version]))

    return later_rabbitmq


def _amqproxy(version: str) -> Any:
    """The fixture of our own broker that answers as a version of RabbitMQ."""

    @pytest.fixture(scope="session", name=f"amqproxy-{version}")
    def amqproxy() -> Iterator[Target]:
        yield from _running(OwnTarget(DEFINITIONS, PROFILES[version]))

    return amqproxy


@pytest.fixture(scope="session", name="rabbitmq-newest")
def rabbitmq_newest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """RabbitMQ of Debian unstable, compared with the newest row of the table: see `make newest-rabbitmq`."""
    with running(tmp_path_factory.mktemp("rabbitmq"), unpacked("sid", "")) as node:
        yield from _running(RabbitMQTarget(node, DEFINITIONS, PROFILES[NEWEST]))


rabbitmq_4_0, rabbitmq_4_3 = _later_rabbitmq("4.0"), _later_rabbitmq("4.3")
amqproxy_3_10, amqproxy_4_0, amqproxy_4_3 = map(_amqproxy, PROFILES)


def _running(target: Target) -> Iterator[Target]:
    yield target
    target.stop()


@pytest.fixture
def scene(request: pytest.FixtureRequest, broker: Target) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(broker, stack)


@pytest.fixture
def profile(broker: Target) -> Profile:
    """The row of the table of versions by which the broker has to answer."""
    return broker.profile


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
def broker_can(request: pytest.FixtureRequest) -> None:
    """Skip what RabbitMQ itself cannot do, and what our profiles do not reach."""
    if "broker" not in request.fixturenames:
        return
    product, _, version = request.node.callspec.params["broker"].partition("-")
    version = NEWEST if version == "newest" else version
    for mark in request.node.iter_markers("needs_feature"):
        if not PROFILES[version].permits(mark.args[0]):
            pytest.skip(f"RabbitMQ {version} denies {mark.args[0]}; see test_versions.py")
    if product == "rabbitmq":
        for mark in request.node.iter_markers("unsupported_on_rabbitmq"):
            why, *versions = mark.args
            if not versions or version in versions:
                pytest.skip(f"RabbitMQ {version} cannot: {why}")
    else:
        for mark in request.node.iter_markers("unreached"):
            if version in UNREACHED[mark.args[0]].versions:
                pytest.skip(f"{mark.args[0]}: {UNREACHED[mark.args[0]].ours}")


@pytest.fixture(autouse=True)
def deadline() -> Iterator[None]:
    def expire(_: int, __: FrameType | None) -> None:
        raise TimeoutError(f"the test took more than {DEADLINE} s")

    previous = signal.signal(signal.SIGALRM, expire)
    signal.alarm(DEADLINE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous)
