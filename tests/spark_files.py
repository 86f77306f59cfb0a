"""Which test files share the Spark session of `tests.pipeline.conftest`: one process has to run all of them.

A JVM that has run a query before runs the next one several times as fast as a new one does.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[1]


@cache
def shares_spark(path: Path) -> bool:
    """Has the file a test or a fixture that is given the session?"""
    return path.is_relative_to(ROOT / "tests" / "pipeline") and "spark: SparkSession" in path.read_text()


def group_of(file: str) -> str:
    """What is run by one process: a file, relative to the root, or all that share Spark."""
    return "tests with Spark" if shares_spark(ROOT / file) else file


def scheduling(config: pytest.Config, log: Any) -> Any:
    """xdist's `--dist loadfile`, but that all files with the session are one; None for another `--dist`."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class OneSession(LoadFileScheduling):
        """Gives each file to one process, and all that share Spark to the same."""

        def _split_scope(self, nodeid: str) -> str:
            return group_of(super()._split_scope(nodeid))

    return OneSession(config, log)
