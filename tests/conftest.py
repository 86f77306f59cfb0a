"""Fixtures for tests with real components; what they start lives in `tests.real`."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import structlog

from amqproxy.app.pump_threads import TEST_MODE
from amqproxy.compiled._pure import is_compiled
from tests.process_groups import scheduling, shares_spark
from tests.real.proxy import Proxy, StartProxy
from tests.real.rabbitmq import RabbitMQ, running
from tests.real.rabbitmq_installation import chosen

pytest.register_assert_rewrite("tests.proxy.stage")  # before any package imports it

# Examples are counted, not timed: how long one takes depends on what else the machine does.
hypothesis.settings.register_profile("untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("untimed")
# For a second run of the same tests: a fifth of the first one's examples. They are the same ones where CI=true.
hypothesis.settings.register_profile("fewer", hypothesis.settings.get_profile("untimed"), max_examples=20)


def pytest_configure() -> None:
    """SIGTERM ends the run as Ctrl-C does: with its fixtures torn down, and so no broker left behind.

    A run in the background of a script ignores SIGINT, and so would all processes that tests start and interrupt.

    What is to be run compiled is not run where that is stale: a part of it would be plain, without pumps.
    """
    if (os.environ.get("AMQPROXY_PURE") == "0" or int(os.environ.get(TEST_MODE) or 0) > 0) and not is_compiled():
        raise pytest.UsageError("compiled modules are missing, or older than their sources: make compile")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with tests that take long come first: so none of them is left to one worker alone in the end.

    Those that share a Spark session are together the longest.
    """
    long = {item.path for item in items if item.get_closest_marker("real") or item.get_closest_marker("slow")}
    items.sort(key=lambda item: 0 if shares_spark(item.path) else 1 if item.path in long else 2)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadfile`, in which tests that share what takes long to start share a process."""
    return scheduling(config, log)


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    """A command that a test runs in this process leaves its level of the log behind, and others capture all of it."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    """A private RabbitMQ node that all tests share: leave it as you found it."""
    with running(tmp_path_factory.mktemp("rabbitmq"), chosen()) as node:
        yield node


@pytest.fixture
def disposable_rabbitmq(tmp_path: Path) -> Iterator[RabbitMQ]:
    """A RabbitMQ node of one test's own, which may be killed."""
    directory = tmp_path / "rabbitmq"
    directory.mkdir()
    with running(directory, chosen()) as node:
        yield node


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
