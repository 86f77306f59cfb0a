"""`run --live`, killed at each of eleven points, while files come in any order: its tables are the truth."""

from __future__ import annotations

import gzip
import random
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

pytest.importorskip("pyspark")

from amqproxy.pipeline.duck import DuckSession
from amqproxy.pipeline.ledger import contents
from tests.pipeline.killed_driver import POINTS, REVIEWED
from tests.pipeline.seven_hosts import SETTLED, check, comparable, in_any_order, recorded, run, tables
from tests.real.poll import until
from tests.real.require import require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE = 600.0
"""Seconds for what takes Spark some twenty."""


def closed(files: Iterable[str], captures: Path) -> list[str]:
    """Compress files into a directory, as a ring's files are once they are closed; each appears as a whole."""
    made = []
    for file in map(Path, files):
        written = captures.with_name(file.name)
        written.write_bytes(gzip.compress(file.read_bytes(), 1))
        made.append(str(written.rename(captures / f"{file.name}.gz")))
    return made


def driver(point: str, captures: Path, path: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.pipeline.killed_driver", point, "pipeline", "run", "--live", str(captures)]
    command += ["--tables", str(path), "--interval", "1", "--window", "1h", "--master", "local[2]"]
    return subprocess.Popen([*command, *(["--review", "0.001"] if point in REVIEWED else [])])


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("quick_spark_processes")
def test_killed_at_each_point_it_ends_with_the_truth(tmp_path: Path) -> None:
    """Each start goes on where the one before was killed, with more files, and is killed at the next point."""
    require("java", package="openjdk-17-jre-headless")
    for name in ("written", "captures"):
        (tmp_path / name).mkdir()
    captures, path = tmp_path / "captures", tmp_path / "live"
    truth, hosts = recorded(tmp_path / "written", 3, (30, 80))
    batches = in_any_order(len(POINTS) + 1, hosts, random.Random(5))
    assert all(batches), "each start has something to do"
    files: list[str] = []
    for point, batch in zip(POINTS, batches, strict=False):
        files += closed(batch, captures)
        killed = driver(point, captures, path)
        try:
            assert killed.wait(PATIENCE) == -signal.SIGKILL, point
        finally:
            killed.kill()
            killed.wait()
    files += closed(batches[-1], captures)
    last = driver("", captures, path)
    try:
        until(lambda: len(contents(str(path)).captures) == len(files) or last.poll() is not None, "all files", PATIENCE)
        last.terminate()
        assert last.wait(PATIENCE) == 0
    finally:
        last.kill()
        last.wait()
    with closing(DuckSession()) as opened:
        duck = cast("SparkSession", opened)
        run(duck, path, [[]])  # what is open is written
        run(duck, tmp_path / "one", [sorted(files)])
    one, live = tables(tmp_path / "one"), tables(path)
    for name in SETTLED:
        assert comparable(live[name]) == comparable(one[name]), name
    check(path, truth, hosts)
