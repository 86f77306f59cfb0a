"""Fixtures for tests with real components; what they start lives in `tests.real`."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.real.proxy import Proxy, StartProxy
from tests.real.rabbitmq import RabbitMQ

pytest.register_assert_rewrite("tests.proxy.stage")  # before any package imports it


def pytest_configure() -> None:
    """SIGTERM ends the run as Ctrl-C does: with its fixtures torn down, and so no broker left behind.

    A run in the background of a script ignores SIGINT, and so would all processes that tests start and interrupt.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    """A private RabbitMQ node that all tests share: leave it as you found it."""
    yield from _running(tmp_path_factory.mktemp("rabbitmq"))


@pytest.fixture
def disposable_rabbitmq(tmp_path: Path) -> Iterator[RabbitMQ]:
    """A RabbitMQ node of one test's own, which may be killed."""
    directory = tmp_path / "rabbitmq"
    directory.mkdir()
    yield from _running(directory)


def _running(directory: Path) -> Iterator[RabbitMQ]:
    node = RabbitMQ(directory)
    try:
        node.start()
        yield node
    finally:
        node.stop()


@pytest.fixture
def start_proxy(tmp_path: Path) -> Iterator[StartProxy]:
    """Starts amqproxy: `start_proxy(port, "--print", limits={"drain_timeout": 5})`. It ends with the test."""
    with ExitStack() as stack:

        def start(upstream_port: int, /, *options: str, **config: Any) -> Proxy:
            started = Proxy(tmp_path, upstream_port, *options, **config)
            stack.callback(started.kill)
            return started

        yield start


@pytest.fixture
def proxy(start_proxy: StartProxy, rabbitmq: RabbitMQ) -> Proxy:
    """amqproxy in front of the shared RabbitMQ node, with no rules."""
    return start_proxy(rabbitmq.port)
