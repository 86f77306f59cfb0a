"""Captures that come after those that continue them: the tables are those of any other order, or the errors say so."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from amqproxy.pipeline import jobs, late_captures
from amqproxy.pipeline.ledger import Ledger, contents
from amqproxy.pipeline.ledger.commits import Commit, Contents
from tests.pipeline.made_tables import SETTINGS, PowerCut, cut_at, rows, tables, work
from tests.pipeline.rotated import entries_of, recorded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.once

CAPTURES = Path(__file__).parents[2] / "captures"
HOUR_NS = 3600 * 1_000_000_000
DAY_NS = 24 * HOUR_NS
FIRST, LAST = 10, 25
"""Files before the late ones, and the first after them."""


def recording(directory: Path, apart_ns: int = HOUR_NS, silent: int | None = None, silence_ns: int = 0) -> list[str]:
    """Record a connection with a file for each frame, `apart_ns` apart; frame `silent` comes `silence_ns` later."""
    entries = list(entries_of(CAPTURES / "publish-get-ack.pcapng"))
    times = [
        each.ts_ns + n * apart_ns + silence_ns * (silent is not None and n >= silent) for n, each in enumerate(entries)
    ]
    return recorded(
        directory, [each._replace(ts_ns=ts_ns) for each, ts_ns in zip(entries, times, strict=True)], is_rotated=True
    )


def every_job(spark: SparkSession, path: Path, files: list[str]) -> list[jobs.Done]:
    with Ledger(str(path)) as held:
        return jobs.run(spark, held, held.find(files).new, SETTINGS)


@pytest.mark.on_duckdb
def test_all_tables_are_those_of_one_run_wherever_it_is_cut(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also `findings` and `anomalies`; the first row of hours is the same in none of the two connections."""
    files = recording(tmp_path / "recorder")
    every_job(spark, tmp_path / "one", files)
    late = tmp_path / "late"
    every_job(spark, late, files[LAST:])
    every_job(spark, late, [*files[:FIRST], *files[LAST:]])
    before = tables(late)
    for table in ("events", "deliveries", "rollup_minute"):
        cut_at(monkeypatch, table, 1)
        with pytest.raises(PowerCut):
            every_job(spark, late, files)
        monkeypatch.undo()
        if table == "events":
            assert tables(late) == before
    assert rows(late, "connections") == rows(tmp_path / "one", "connections"), "settled before the last cut"
    every_job(spark, late, files)
    assert tables(late) == tables(tmp_path / "one")
    assert [each.batch for each in every_job(spark, late, files)] == [None] * 6


@pytest.mark.on_duckdb
def test_a_silence_that_a_late_file_breaks_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is counted in a week without packets; then it turns out that there were some in its middle."""
    files = recording(tmp_path / "recorder", HOUR_NS, 12, 6 * DAY_NS + 20 * HOUR_NS)
    later = [*files[:12], *files[24:]]
    work(spark, tmp_path / "one", files)
    work(spark, tmp_path / "late", later)
    assert any("nothing was recorded" in row for row in rows(tmp_path / "late", "errors"))
    work(spark, tmp_path / "late", files)
    assert not rows(tmp_path / "late", "errors")
    assert tables(tmp_path / "late") == tables(tmp_path / "one")


@pytest.mark.on_duckdb
def test_a_chain_of_which_a_file_is_gone_is_not_read_again_and_an_error_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = recording(tmp_path / "recorder")
    work(spark, tmp_path / "tables", [*files[:FIRST], *files[LAST:]])
    before = set(rows(tmp_path / "tables", "messages"))
    Path(files[0]).unlink()
    done = work(spark, tmp_path / "tables", files[1:])
    told = [each for each in done[0].lost if each.kind == "late"]
    assert [each.file for each in told] == files[FIRST:LAST]
    assert {each.text for each in told} == {
        "came after later files of its chain, which is not read again, since 1 of its files is gone"
    }
    assert before <= set(rows(tmp_path / "tables", "messages"))
    errors = [json.loads(row) for row in rows(tmp_path / "tables", "errors")]
    assert sum("which is not read again" in row["text"] for row in errors) == LAST - FIRST
    assert not done[0].again


@pytest.mark.on_duckdb
def test_a_chain_that_changed_or_is_large_is_not_read_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = recording(tmp_path / "recorder")
    work(spark, tmp_path / "tables", files[LAST:], counts=False)
    with Ledger(str(tmp_path / "tables")) as held:
        assert late_captures.late_captures(held, files[:FIRST], "auto").files == files[:FIRST] + files[LAST:]
        assert late_captures.late_captures(held, files[:FIRST], "file").files == []
        monkeypatch.setattr(late_captures, "MAX_BYTES", 100)
        (apart,) = late_captures.late_captures(held, files[:FIRST], "auto").apart
        assert (apart.files, apart.why) == (files[:FIRST], "it has 0 GB")
        monkeypatch.undo()
        os.truncate(files[-1], 100)
        (apart,) = late_captures.late_captures(held, files[:FIRST], "auto").apart
        assert apart.why == "1 of its files changed since"


def test_an_hour_that_lost_its_last_file_is_new(tmp_path: Path) -> None:
    found = Contents()
    hours = [f"messages/date=2026-11-23/hour={hour}" for hour in (7, 8)]
    files = [f"{hour}/batch-00000001-0.zstd.parquet" for hour in hours]
    found.add(Commit(batch=1, job="settle", at="", files={"messages": files}))
    found.add(Commit(batch=2, job="settle", at="", removed=files[:1]))
    with Ledger(str(tmp_path)) as held:
        held.contents = found
        found.through["rollup"] = 1
        assert jobs._touched(held, "rollup", ["messages"]) == {("2026-11-23", 7)}
        found.through["rollup"] = 2
        assert jobs._touched(held, "rollup", ["messages"]) == set()
    assert contents(str(tmp_path)).emptied == {}
