"""Dashboards of tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from amqproxy.dashboard.app import create_app
from amqproxy.dashboard.settings import Settings
from tests.amqp010.recorded import FOLDER

CAPTURES = Path(__file__).parents[2] / "captures"

Dashboard = Callable[..., TestClient]


def capture_of(name: str) -> Path:
    """The golden capture of this name, or the one of AMQP 0-10."""
    path = CAPTURES / f"{name}.pcapng"
    return path if path.is_file() else next(FOLDER.glob(f"{name}.pcap*"))


@contextmanager
def client_of(settings: Settings) -> Iterator[TestClient]:
    """A browser of a dashboard, whose captures have been read."""
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8672") as client:
        deadline = time.monotonic() + 30
        while any(each["kind"] == "capture" and each["state"] != "ended" for each in sources_of(client, settings)):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield client


def sources_of(client: TestClient, settings: Settings) -> list[dict[str, object]]:
    return [] if settings.needs_login else client.get("/api/v1/sources").json()  # type: ignore[no-any-return]


@pytest.fixture
def dashboard() -> Iterator[Dashboard]:
    """Makes a dashboard of these captures, by their names."""
    with ExitStack() as stack:

        def make(*captures: str, **settings: object) -> TestClient:
            paths = tuple(map(capture_of, captures))
            return stack.enter_context(client_of(Settings(captures=paths, **settings)))  # type: ignore[arg-type]

        yield make
