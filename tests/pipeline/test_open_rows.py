"""What is open has rows from the start: those of one run are those of many batches, after each of these."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import pyarrow.parquet as pq

from amqproxy.pipeline import jobs, source
from amqproxy.pipeline.duck import DuckSession
from amqproxy.pipeline.ledger import Ledger, contents, is_open_file
from amqproxy.pipeline.tables import batch_of
from tests.pipeline.made_tables import tables, work
from tests.pipeline.rotated import entries_of, recorded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.once

CAPTURES = Path(__file__).parents[2] / "captures"
APART_NS = 7 * 60 * 1_000_000_000
"""Between two frames, so that a connection lives for some hours."""
MINUTE_NS = 60 * 1_000_000_000
BEGINS = 20
"""Files before the second connection."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A recording with a file for each frame, of two connections that overlap."""
    entries = list(entries_of(CAPTURES / "publish-get-ack.pcapng"))
    second = dataclasses.replace(entries[0].connection, number=7, name="127.0.0.1:9-127.0.0.1:2")
    later = [each._replace(connection=second) for each in entries]
    both = entries[:BEGINS]
    for pair in zip(entries[BEGINS:], later, strict=False):
        both += pair
    both += later[len(entries) - BEGINS :]
    apart = [each._replace(ts_ns=entries[0].ts_ns + n * APART_NS) for n, each in enumerate(both)]
    return recorded(tmp_path_factory.mktemp("recorder") / "all", apart, is_rotated=True)


def rows(path: Path, table: str) -> list[dict[str, Any]]:
    return [
        {**row, "is_in_open_file": is_open_file(name)}
        for name in contents(str(path)).files.get(table, [])
        for row in pq.ParquetFile(path / name).read().to_pylist()
    ]


@pytest.mark.both_engines(usual=False)
def test_many_batches_give_the_rows_of_one_run_after_each(
    spark: SparkSession, tmp_path: Path, files: list[str]
) -> None:
    many = tmp_path / "many"
    ends = [9, 21, 45, len(files)] if isinstance(spark, DuckSession) else [45, len(files)]
    for end in ends:
        work(spark, many, files[:end])
        work(spark, tmp_path / str(end), files[:end])
        assert tables(many) == tables(tmp_path / str(end)), end
        found = rows(many, "connections")
        assert len({row["connection_id"] for row in found}) == len(found) == (1 if end < 2 * BEGINS else 2)
        assert [row["is_open"] for row in found] == [row["is_in_open_file"] for row in found]
        assert any(row["is_open"] for row in found) is (end < len(files))
    assert len(rows(many, "channels")) == 2


@pytest.mark.on_duckdb
def test_an_open_connection_counts_in_each_minute_up_to_the_end_of_the_recording(
    spark: SparkSession, tmp_path: Path, files: list[str]
) -> None:
    for end in (12, 16):
        work(spark, tmp_path, files[:end])
    (connection,) = rows(tmp_path, "connections")
    assert connection["is_open"]
    assert connection["closed_ns"] == max(row["ts_ns"] for row in rows(tmp_path, "events"))
    minutes = [row for row in rows(tmp_path, "rollup_minute") if row["by"] == "all" and row["open"]]
    lived = connection["closed_ns"] // MINUTE_NS - connection["opened_ns"] // MINUTE_NS + 1
    assert len({row["minute"] for row in minutes}) == len(minutes) == lived > 7
    assert {row["open"] for row in minutes} == {1}


@pytest.mark.on_duckdb
def test_rows_that_are_only_written_again_are_not_new_nor_put_together_with_others(
    spark: SparkSession, tmp_path: Path, files: list[str]
) -> None:
    """Else each batch would have the anomalies of all hours with an open connection judged again."""
    for end in (12, 16):
        work(spark, tmp_path, files[:end], counts=False)
    (name,) = contents(str(tmp_path)).files["connections"]
    assert batch_of(name) == 2
    with Ledger(str(tmp_path)) as held:
        jobs.compact(spark, held)
        assert held.contents.files["connections"] == [name]


@pytest.mark.on_duckdb
def test_a_chain_that_is_over_leaves_nothing_open(
    spark: SparkSession, tmp_path: Path, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    work(spark, tmp_path, files[:16])
    (before,) = rows(tmp_path, "connections")
    monkeypatch.setattr(jobs, "ended_chains", lambda *_: {before["chain"]})
    work(spark, tmp_path, [str(CAPTURES / "confirms.pcapng")])
    (after,) = [row for row in rows(tmp_path, "connections") if row["chain"] == before["chain"]]
    assert before["is_in_open_file"]
    assert not after["is_in_open_file"]
    assert {**after, "batch": 0, "is_in_open_file": True} == {**before, "batch": 0}


# --- a clock that jumps


@pytest.mark.on_duckdb
@pytest.mark.parametrize(("is_rotated", "shared_bytes"), [(False, 1 << 30), (True, 1 << 30), (False, 0)])
def test_a_clock_that_jumps_is_told_and_nothing_is_counted_between(
    spark: SparkSession, tmp_path: Path, is_rotated: bool, shared_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine without a clock of its own begins in 1970, until its first answer from a time server.

    Also in a chain that is so large that it is read in shares.
    """
    monkeypatch.setattr(source, "SHARED_BYTES", shared_bytes)
    entries = list(entries_of(CAPTURES / "publish-get-ack.pcapng"))
    set_at = 12
    early = [each._replace(ts_ns=(10 + n) * 1_000_000_000) for n, each in enumerate(entries[:set_at])]
    later = [each._replace(ts_ns=each.ts_ns + n * APART_NS) for n, each in enumerate(entries[set_at:])]
    files = recorded(tmp_path / "recorder", [*early, *later], is_rotated=is_rotated)
    made = tmp_path / "tables"
    if is_rotated:
        work(spark, made, files[: set_at + 3])
    done = work(spark, made, files)
    (told,) = [row for row in rows(made, "errors") if row["kind"] == "lost"]
    said = "nothing was recorded for 20,778 days, or the clock jumped: from 1970-01-01 00:00:21"
    assert told["text"].startswith(said)
    assert is_rotated or [each.kind for each in done[0].lost] == ["clock"]
    (connection,) = rows(made, "connections")
    assert connection["opened_ns"] < 60 * 1_000_000_000
    minutes = [row for row in rows(made, "rollup_minute") if row["by"] == "all" and row["open"]]
    lived = connection["closed_ns"] // MINUTE_NS - later[0].ts_ns // MINUTE_NS + 1
    assert len(minutes) == 1 + lived, "the first minute of 1970, and those since the clock was set"
    assert {row["open"] for row in minutes} == {1}


@pytest.mark.on_duckdb
def test_a_connection_that_is_silent_for_days_is_open(spark: SparkSession, tmp_path: Path) -> None:
    entries = list(entries_of(CAPTURES / "publish-get-ack.pcapng"))
    days_ns = 6 * jobs.DAY_NS
    late = [each._replace(ts_ns=each.ts_ns + days_ns * (n >= 20)) for n, each in enumerate(entries)]
    work(spark, tmp_path / "tables", recorded(tmp_path / "recorder", late, is_rotated=False))
    minutes = [row for row in rows(tmp_path / "tables", "rollup_minute") if row["by"] == "all" and row["open"]]
    assert len(minutes) in (6 * 1440 + 1, 6 * 1440 + 2)
    assert not rows(tmp_path / "tables", "errors")
