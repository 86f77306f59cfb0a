"""Real executors, in processes of their own, that get the package from the driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyspark
import pytest

from amqproxy.pipeline import session, shipping
from tests.pipeline import cluster_job
from tests.real.require import require

pytestmark = [pytest.mark.once, pytest.mark.slow]

CAPTURES = Path(__file__).parents[2] / "captures"


@pytest.mark.usefixtures("quick_spark_processes")
def test_executors_read_captures_and_write_tables_with_the_package_of_the_driver(tmp_path: Path) -> None:
    require("java", package="openjdk-17-jre-headless")
    captures = [CAPTURES / f"{name}.pcapng" for name in ("confirms", "publish-get-ack", "transactions")]
    command = (sys.executable, cluster_job.__file__, "local-cluster[2,1,1024]", *map(str, captures))
    environment = os.environ | {"SPARK_HOME": str(_spark_home(tmp_path / "spark")), "SPARK_LOCAL_DIRS": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    expected: Counter[str] = Counter()
    for capture in captures:
        for line in capture.with_suffix(".jsonl").read_text().splitlines():
            expected[json.loads(line)["type"]] += 1
    assert found["counts"] == expected
    assert found["written"] == expected.total()
    assert all(f"/{shipping.DIRECTORY}/amqproxy/" in package for package in found["packages"]), found
    assert found["processes"] >= 2


def _spark_home(directory: Path) -> Path:
    """PySpark's own, in a place where workers may write: they work in it."""
    directory.mkdir()
    for each in Path(pyspark.__file__).parent.iterdir():
        (directory / each.name).symlink_to(each)
    return directory


@pytest.mark.parametrize(
    ("master", "are_there"),
    [
        ("local[*]", False),
        ("local-cluster[2,1,1024]", True),
        ("spark://a:7077", True),
        ("k8s://a", False),
        (None, False),
    ],
)
def test_who_gets_the_package(master: str | None, are_there: bool) -> None:
    assert session.has_executors(master) is are_there
