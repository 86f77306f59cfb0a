"""The command as operators run it: by spark-submit, on a full disk, and with ten thousand captures in 2 GB."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from amqproxy.cli.failure import FAILED
from amqproxy.pipeline.ledger import contents
from tests.capture import golden
from tests.pipeline.known_tables import write_known_tables
from tests.real.require import missing, require, require_module

# Some start Spark ten times, or read ten thousand files: an hour on a machine that is busy otherwise.
pytestmark = [pytest.mark.once, pytest.mark.soak, pytest.mark.real, pytest.mark.timeout(3600)]

JOBS = ("settle", "link", "rollup", "findings", "anomalies", "compact")
CAPTURES = [str(golden.FOLDER / f"{name}.pcapng") for name in ("confirms", "publish-get-ack", "transactions")]


@pytest.fixture(autouse=True)
def _needs_spark() -> None:
    require_module("pyspark", package="'amqproxy[pipeline]'")
    require("java", package="openjdk-17-jre-headless")


def pipeline(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "amqproxy", "pipeline", *arguments]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)


def rows(tables: Path, name: str) -> Counter[str]:
    """A table, but for which batch wrote a row."""
    found: Counter[str] = Counter()
    for file in contents(str(tables)).files.get(name, []):
        for row in pq.ParquetFile(tables / file).read().to_pylist():
            del row["batch"]
            found[json.dumps(row, default=str, sort_keys=True)] += 1
    return found


def test_each_job_by_spark_submit(tmp_path: Path) -> None:
    """The tables are those of `run`."""
    import pyspark

    import amqproxy.cli.pipeline

    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    script = str(Path(amqproxy.cli.pipeline.__file__).parent / "__main__.py")
    tables = tmp_path / "submitted"

    def submitted(job: str, *arguments: str) -> dict[str, object]:
        command = [submit, "--master", "local[2]", script, job, *arguments, "--tables", str(tables), "--json"]
        environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("{")]  # it has both outputs of ours
        told = json.loads(line)
        assert told["job"] == job
        return dict(told)

    for capture in CAPTURES:
        assert submitted("ingest", capture)["captures"] == 1
    for job in JOBS[:-1]:
        submitted(job, *(["--age", "0"] if job == "settle" else []))
    assert submitted("compact")["batch"] is not None
    whole = tmp_path / "run"
    assert pipeline("run", *CAPTURES, "--age", "0", "--tables", str(whole), "--master", "local[2]").returncode == 0
    for name in (
        "messages",
        "deliveries",
        "requests",
        "connections",
        "channels",
        "errors",
        "rollup_minute",
        "findings",
    ):
        assert rows(tables, name) == rows(whole, name), name


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 160 KB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=160k", "none", disk], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        missing("the right to mount a small disk", "run as root")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_loses_nothing(small_disk: Path, tmp_path: Path) -> None:
    arguments = ("run", *CAPTURES, "--age", "0", "--master", "local[2]", "--tables")
    full = pipeline(*arguments, str(small_disk / "tables"))
    assert full.returncode == FAILED
    assert full.stderr == (
        "amqproxy: pipeline run: no space left on the disk; uncommitted files are removed on the next run\n"
    )
    subprocess.run(["mount", "-o", "remount,size=50M", small_disk], check=True)
    again = pipeline(*arguments, str(small_disk / "tables"))
    assert (again.returncode, again.stderr) == (0, "")
    assert pipeline(*arguments, str(tmp_path / "whole")).returncode == 0
    names = sorted(contents(str(tmp_path / "whole")).files)
    assert {name: rows(small_disk / "tables", name) for name in names} == {
        name: rows(tmp_path / "whole", name) for name in names
    }


MANY = 10_000


def test_ten_thousand_captures_in_two_gigabytes(tmp_path: Path) -> None:
    data = (golden.FOLDER / "confirms.pcapng").read_bytes()
    captures = tmp_path / "captures"
    captures.mkdir()
    for number in range(MANY):
        (captures / f"{number}.pcapng").write_bytes(data)
    tables = tmp_path / "tables"
    arguments = ("run", str(captures), "--tables", str(tables), "--master", "local[2]", "--age", "0")
    done = pipeline(*arguments, SPARK_DRIVER_MEMORY="2g")
    assert done.returncode == 0, done.stderr
    assert f" {MANY} captures: " in done.stdout
    assert sum(rows(tables, "messages").values()) == MANY * _publishes()
    again = pipeline(*arguments, SPARK_DRIVER_MEMORY="2g")
    assert f"nothing new: all {MANY} captures are in already" in again.stdout


def _publishes() -> int:
    lines = golden.records_path(golden.FOLDER / "confirms.pcapng").read_text().splitlines()
    return sum(json.loads(line).get("method") == "basic.publish" for line in lines)


@pytest.mark.parametrize("arguments", [("run", CAPTURES[0]), ("ask", "capacity")])
def test_a_wrong_master_is_told_in_a_line(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    write_known_tables(tmp_path)
    ended = pipeline(*arguments, "--tables", str(tmp_path), "--master", "local[x]")
    assert (ended.returncode, ended.stderr) == (
        FAILED,
        f"amqproxy: pipeline {arguments[0]}: Spark did not start: Could not parse Master URL: 'local[x]'\n",
    )
