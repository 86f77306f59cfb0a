"""Tests that share what takes long to start: one process runs all tests of such a group.

The files with the Spark session of `tests.pipeline.conftest` are one, since a JVM that has run a query before runs the
next one several times as fast as a new one does. The behaviours of each later RabbitMQ are another: its node starts
once.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[1]

OF_LATER_RABBITMQ = re.compile(r"^tests/behaviours/.*\[(rabbitmq-4\.\d+)[-\]]")
"""A test of the behaviours of one of these, by its name."""


@cache
def shares_spark(path: Path) -> bool:
    """Has the file a test or a fixture that is given the session?"""
    return path.is_relative_to(ROOT / "tests" / "pipeline") and "spark: SparkSession" in path.read_text()


def group_of(test: str) -> str:
    """The group of a test, named by pytest: its file, relative to the root, or what it shares."""
    file = test.partition("::")[0]
    if node := OF_LATER_RABBITMQ.search(test):
        return node[1]
    return "tests with Spark" if shares_spark(ROOT / file) else file


def scheduling(config: pytest.Config, log: Any) -> Any:
    """xdist's `--dist loadfile` with groups in place of files; None for another `--dist`."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class OneSession(LoadFileScheduling):
        """Gives each group to one process."""

        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return OneSession(config, log)
