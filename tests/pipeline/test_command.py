"""`amqproxy pipeline`: what it says where it cannot work. None of these starts Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqproxy.cli.failure import FAILED, MISUSED
from amqproxy.pipeline.ledger import Ledger
from tests.cli.outcome import Amqproxy
from tests.real.require import require

pytest.importorskip("pyspark")

pytestmark = pytest.mark.once

JOBS = ("ingest", "settle", "link", "rollup", "findings", "anomalies", "compact", "run")


@pytest.mark.parametrize("job", JOBS)
def test_each_job_has_help(job: str, amqproxy: Amqproxy) -> None:
    ended = amqproxy("pipeline", job, "--help")
    assert ended.code == 0
    assert f"amqproxy pipeline {job}" in ended.out
    assert "--tables" in ended.out


@pytest.mark.parametrize("job", ["settle", "link", "rollup", "findings", "anomalies", "compact"])
def test_without_tables_the_way_to_them_is_named(job: str, tmp_path: Path, amqproxy: Amqproxy) -> None:
    ended = amqproxy("pipeline", job, "--tables", str(tmp_path / "none"))
    assert ended.code == FAILED
    assert ended.err == (
        f"amqproxy: pipeline {job}: no tables in {tmp_path}/none: make them with `amqproxy pipeline ingest`, "
        "or name them with --tables\n"
    )
    assert not (tmp_path / "none").exists()


def test_a_file_is_no_directory_of_tables(tmp_path: Path, amqproxy: Amqproxy) -> None:
    file = tmp_path / "file"
    file.write_text("")
    ended = amqproxy("pipeline", "ingest", str(tmp_path), "--tables", str(file))
    assert ended.code == FAILED
    assert ended.err.endswith(f"{file} cannot be a directory of tables: Not a directory\n")


def test_the_other_driver_is_named(tmp_path: Path, amqproxy: Amqproxy) -> None:
    with Ledger(str(tmp_path)):
        ended = amqproxy("pipeline", "ingest", "x.pcapng", "--tables", str(tmp_path))
    assert ended.code == FAILED
    assert f"amqproxy: pipeline ingest: {tmp_path} is written by process " in ended.err


def test_temporary_files_lie_beside_the_tables_and_are_gone_after_a_kill(tmp_path: Path) -> None:
    with Ledger(str(tmp_path)) as ledger:
        assert ledger.scratch is not None
        (Path(ledger.scratch) / "spilled").write_text("")  # and the driver is killed
        assert Path(ledger.scratch).is_relative_to(tmp_path)
    with Ledger(str(tmp_path)):
        assert list(tmp_path.rglob("spilled")) == []


def test_nothing_to_read_is_told_before_spark_is_started(
    tmp_path: Path, amqproxy: Amqproxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    from amqproxy.pipeline import session

    monkeypatch.setattr(session, "session", None)
    tables = str(tmp_path / "tables")
    none = amqproxy("pipeline", "run", "--tables", tables)
    assert (none.code, none.err) == (MISUSED, "amqproxy: pipeline run: name captures, or directories of them\n")
    empty = amqproxy("pipeline", "run", str(tmp_path / "*.pcapng"), "--tables", tables)
    assert (empty.code, "no file matches" in empty.err) == (FAILED, True)
    gone = amqproxy("pipeline", "ingest", str(tmp_path / "gone.pcapng"), "--tables", tables)
    assert (gone.code, "gone.pcapng: No such file or directory" in gone.err) == (FAILED, True)
    (tmp_path / "a.pcapng.partial").write_text("")
    partial = amqproxy("pipeline", "ingest", str(tmp_path / "a.pcapng.partial"), "--tables", tables)
    assert (partial.code, "1 still being written" in partial.err) == (FAILED, True)
    neither = amqproxy("pipeline", "ingest", "x", "--no-events", "--tables", tables)
    assert (neither.code, neither.err) == (MISUSED, "amqproxy: pipeline: --no-events without --frames makes no table\n")
    for arguments in (["a", "b"], [str(tmp_path / "none")]):
        assert amqproxy("pipeline", "run", "--live", *arguments, "--tables", tables).code != 0


@pytest.mark.parametrize("options", [["--age", "soon"], ["--body=-1"], ["--zone", "Mars"]])
def test_a_wrong_option_is_told_at_once(options: list[str], tmp_path: Path, amqproxy: Amqproxy) -> None:
    ended = amqproxy("pipeline", "run", str(tmp_path), *options, "--tables", str(tmp_path / "tables"))
    assert ended.code == MISUSED
    assert options[0].partition("=")[0] in ended.err


def test_without_java_the_remedy_is_named(tmp_path: Path, amqproxy: Amqproxy, monkeypatch: pytest.MonkeyPatch) -> None:
    require("java", package="openjdk-17-jre-headless")
    from amqproxy.pipeline import session

    monkeypatch.setattr(session.SparkContext, "_gateway", None)
    monkeypatch.setattr(session.SparkSession, "_instantiatedSession", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    capture = tmp_path / "a.pcapng"
    capture.write_bytes(b"")
    ended = amqproxy("pipeline", "ingest", str(capture), "--engine", "spark", "--tables", str(tmp_path / "tables"))
    assert ended.code == FAILED
    assert "apt-get install openjdk-17-jre-headless" in ended.err
