"""The integrated broker in a thread, for the runs of the workbench."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from amqproxy.testing.local_broker import LocalBroker
from tests.workbench.bench_queue import BenchAt


@pytest.fixture(scope="session")
def workbench_broker() -> Iterator[LocalBroker]:
    with LocalBroker("4.3") as broker:
        yield broker


@pytest.fixture
def bench(workbench_broker: LocalBroker, tmp_path: Path) -> BenchAt:
    return BenchAt(int(workbench_broker.address.rpartition(":")[2]), tmp_path)
