"""The pytest fixtures: `amqp_broker` and `amqp_proxy`, each also for a module or the whole session.

Their modules are imported when a test first uses one, so that other test runs are not slowed down.
"""

from __future__ import annotations

import re
import sys
from argparse import ArgumentTypeError
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from amqproxy.testing.local_broker import LocalBroker
    from amqproxy.testing.local_proxy import LocalProxy


MOST_NAME_BYTES = 200
"""Maximum length of a directory's name; file systems allow 255."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("amqproxy").addoption(
        "--amqp-upstream",
        type=_address,
        metavar="HOST:PORT",
        help="the broker behind the fixture amqp_proxy (default: the one of amqp_broker)",
    )
    parser.getgroup("amqproxy").addoption(
        "--amqp-record",
        type=Path,
        metavar="DIR",
        help="record the traffic of each amqp_proxy, in a subdirectory of this one named for the test",
    )
    parser.getgroup("amqproxy").addoption(
        "--no-amqp-report",
        action="store_true",
        help="do not add the latest traffic to the reports of failed tests",
    )


def _address(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise ArgumentTypeError(f"{text!r} is not of the form HOST:PORT")
    return text


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the latest traffic of a failed test's proxies to its report, unless the failure contains it already."""
    report = yield
    module = sys.modules.get("amqproxy.testing.local_proxy")
    is_wanted = not item.config.getoption("--no-amqp-report")
    if module is not None and report.when == "call" and report.failed and is_wanted:
        seen = set()
        shown = report.longreprtext
        for name, value in getattr(item, "funcargs", {}).items():
            if isinstance(value, module.LocalProxy) and id(value) not in seen:
                seen.add(id(value))
                lines = value.last_lines() or "no connection has come to the proxy"
                if not all(line.strip() in shown for line in lines.splitlines()):
                    report.sections.append((f"AMQP through {name}", lines))
    return report


@pytest.fixture
def amqp_broker(request: pytest.FixtureRequest) -> Iterator[LocalBroker]:
    """Yield a broker for the test alone, on a free port: host, port, url, restart(), block(), unblock()."""
    with _broker(request) as broker:
        yield broker


@pytest.fixture(scope="module")
def amqp_broker_module(request: pytest.FixtureRequest) -> Iterator[LocalBroker]:
    """Yield a broker like `amqp_broker`, for all tests of a module."""
    with _broker(request) as broker:
        yield broker


@pytest.fixture(scope="session")
def amqp_broker_session(request: pytest.FixtureRequest) -> Iterator[LocalBroker]:
    """Yield a broker like `amqp_broker`, for all tests."""
    with _broker(request) as broker:
        yield broker


@pytest.fixture
def amqp_proxy(request: pytest.FixtureRequest) -> Iterator[LocalProxy]:
    """Yield a proxy in front of amqp_broker: it records messages and findings, and injects faults."""
    with _proxy(request, "amqp_broker") as proxy:
        yield proxy


@pytest.fixture(scope="module")
def amqp_proxy_module(request: pytest.FixtureRequest) -> Iterator[LocalProxy]:
    """Yield a proxy like `amqp_proxy`, for all tests of a module, in front of amqp_broker_module."""
    with _proxy(request, "amqp_broker_module") as proxy:
        yield proxy


@pytest.fixture(scope="session")
def amqp_proxy_session(request: pytest.FixtureRequest) -> Iterator[LocalProxy]:
    """Yield a proxy like `amqp_proxy`, for all tests, in front of amqp_broker_session."""
    with _proxy(request, "amqp_broker_session") as proxy:
        yield proxy


@contextmanager
def _broker(request: pytest.FixtureRequest) -> Iterator[LocalBroker]:
    """Run a broker with the profile that an indirect parameter names, such as "4.3"."""
    from amqproxy.testing.local_broker import LocalBroker

    with LocalBroker(getattr(request, "param", None)) as broker:
        yield broker


def _directory_name(test: str) -> str:
    """Return the name of a test, or of the session, as a valid directory name."""
    name = re.sub(r"[^\w.\[\]-]+", "-", test, flags=re.ASCII).strip("-") or "session"
    if len(name) > MOST_NAME_BYTES:
        name = f"{name[:MOST_NAME_BYTES]}-{sha256(test.encode()).hexdigest()[:8]}"
    return name


@contextmanager
def _proxy(request: pytest.FixtureRequest, broker: str) -> Iterator[LocalProxy]:
    upstream = request.config.getoption("--amqp-upstream")
    if upstream is None:
        upstream = request.getfixturevalue(broker).address

    from amqproxy.testing.local_proxy import LocalProxy

    directory = request.config.getoption("--amqp-record")
    if directory is not None:
        directory /= _directory_name(request.node.nodeid)
        directory.mkdir(parents=True, exist_ok=True)
    with LocalProxy(upstream, directory) as proxy:
        yield proxy
