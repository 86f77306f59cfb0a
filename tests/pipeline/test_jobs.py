"""The jobs, from captures to tables: however often they run, and wherever they are cut off, the tables are the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import pyarrow.parquet as pq

from amqproxy.pipeline import jobs
from amqproxy.pipeline.ledger import Ledger, contents
from tests.cli.outcome import Amqproxy
from tests.pipeline.rotated import entries_of, recorded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.once

CAPTURES = Path(__file__).parents[2] / "captures"
SETTINGS = jobs.Settings(age_ns=None)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A recording in several files, with connections that go on from one to the next."""
    entries = list(entries_of(CAPTURES / "publish-get-ack.pcapng"))
    return recorded(tmp_path_factory.mktemp("recorder") / "all", entries, is_rotated=True)


def rows(path: Path, name: str) -> list[str]:
    """A table, but for which batch wrote a row; and each row in the hour of its directory."""
    found: list[str] = []
    for file in contents(str(path)).files.get(name, []):
        for row in pq.ParquetFile(path / file).read().to_pylist():
            row.pop("batch")
            found.append(json.dumps({**row, "at": file.rpartition("/")[0]}, default=str, sort_keys=True))
    return sorted(found)


def tables(path: Path) -> dict[str, list[str]]:
    return {name: rows(path, name) for name in sorted(contents(str(path)).files)}


class PowerCut(BaseException):
    """Nothing that comes after it is done."""


def work(spark: SparkSession, path: Path, files: list[str], *, counts: bool = True) -> list[jobs.Done]:
    with Ledger(str(path)) as held:
        done = [jobs.ingest(spark, held, held.find(files).new, SETTINGS), jobs.settle(spark, held, SETTINGS)]
        return [*done, jobs.rollup(spark, held)] if counts else done


def test_one_run_and_two_with_a_cut_between_give_the_same(
    spark: SparkSession, tmp_path: Path, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    work(spark, tmp_path / "one", files)
    one = tables(tmp_path / "one")
    assert one["messages"]
    assert one["rollup_minute"]
    two = tmp_path / "two"
    work(spark, two, files[: len(files) // 2], counts=False)
    cut_at(monkeypatch, "deliveries")
    with pytest.raises(PowerCut):
        work(spark, two, files)
    monkeypatch.undo()
    work(spark, two, files)
    assert tables(two) == one
    assert [each.batch for each in work(spark, two, files)] == [None] * 3
    with Ledger(str(two)) as held:
        events = len(held.contents.files["events"])
        assert jobs.compact(spark, held, ["events"]).removed == events > 1
    assert rows(two, "events") == one["events"]


def cut_at(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    original: Callable[..., None] = jobs.stage

    def stage(ledger: Ledger, name: str, *rest: Any, **more: Any) -> None:
        original(ledger, name, *rest, **more)
        if name == table:
            raise PowerCut

    monkeypatch.setattr(jobs, "stage", stage)


def test_a_connection_is_counted_in_each_hour_of_its_life() -> None:
    second = 1_000_000_000
    start = 1_795_474_799 * second  # 2026-11-23T22:59:59
    assert jobs._hours_between(start, start + 3602 * second) == {
        ("2026-11-23", 22),
        ("2026-11-23", 23),
        ("2026-11-24", 0),
    }
    assert jobs._start_ns(("2026-11-24", 0)) == start + 3601 * second


def test_the_command_says_what_was_done(
    spark: SparkSession, tmp_path: Path, files: list[str], amqproxy: Amqproxy
) -> None:
    ended = amqproxy("pipeline", "ingest", *files, "--tables", str(tmp_path), "--json")
    assert (ended.code, ended.err) == (0, "")
    told = json.loads(ended.out)
    assert told["job"] == "ingest"
    assert told["captures"] == len(files)
    assert told["rows"]["events"] > 10
    again = amqproxy("pipeline", "ingest", *files, "--tables", str(tmp_path))
    assert (again.code, again.out) == (0, f"ingest     nothing new: all {len(files)} captures are in already\n")
