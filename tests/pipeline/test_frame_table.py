"""The table frames, written by Spark's tasks: what the source `amqp` reads of the same captures."""

from __future__ import annotations

from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.parquet as pq

from amqproxy.pipeline import frame_table, source
from amqproxy.pipeline.frame_table import stage_frames
from amqproxy.pipeline.ledger import Ledger
from amqproxy.pipeline.schema import FRAMES
from amqproxy.pipeline.tables import Tables
from tests.amqp010 import recorded as amqp010
from tests.capture import golden, shared_captures
from tests.pipeline.rotated import entries_of, recorded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.once

CAPTURES = [str(path) for path in (*golden.captures(), *amqp010.captures(), *shared_captures.files(amqp010.NAMES))]


def written(spark: SparkSession, path: Path, files: list[str], **options: Any) -> list[dict[str, Any]]:
    """The table of captures, in their order; each row in the hour of its time."""
    with Ledger(str(path)) as ledger:
        stage_frames(spark, ledger, files, **options)
        ledger.commit("ingest", ["frames"], captures=files)
    found: list[dict[str, Any]] = []
    for file in Tables(str(path)).files("frames"):
        rows = pq.ParquetFile(path / file).read().to_pylist()
        time = rows[0]["time"] or datetime.fromtimestamp(0, UTC)
        assert f"/date={time:%Y-%m-%d}/hour={time.hour}/" in file
        assert {row.pop("batch") for row in rows} == {1}
        found += rows
    return sorted(found, key=itemgetter("file", "row"))


def read(files: list[str], **options: Any) -> list[dict[str, Any]]:
    """What the source reads of captures."""
    chosen = source.SourceOptions(paths=tuple(files), **options)
    parts = source.parts_of(source.chains(files, chosen.chains), chosen)
    batches = [batch for part in parts for batch in source.read_part(part, chosen)]
    found: list[dict[str, Any]] = pa.Table.from_batches(batches).to_pylist()
    return sorted(found, key=itemgetter("file", "row"))


@pytest.mark.parametrize("options", [{"chains": "file", "leg": "both", "body": 16}, {}])
def test_rows_of_all_captures_are_those_of_the_source(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any]
) -> None:
    assert written(spark, tmp_path, CAPTURES, **options) == read(CAPTURES, **options)


def test_files_say_what_their_columns_are(spark: SparkSession, tmp_path: Path) -> None:
    written(spark, tmp_path, CAPTURES[:1])
    (file, *_) = Tables(str(tmp_path)).files("frames")
    found = spark.read.parquet(str(tmp_path / file)).schema
    for field, declared in zip(found.fields[:-1], FRAMES.fields, strict=True):
        assert (field.name, field.metadata) == (declared.name, declared.metadata)
        assert field.dataType.simpleString() == declared.dataType.simpleString()
    assert found.names[-1] == "batch"


def test_files_of_a_recording_are_written_apart(spark: SparkSession, tmp_path: Path) -> None:
    entries = list(entries_of(golden.FOLDER / "confirms.pcapng"))
    files = recorded(tmp_path / "recorder", entries, is_rotated=True)
    assert written(spark, tmp_path / "tables", files) == read(files)


def test_what_a_task_has_written_that_failed_is_no_part_of_the_table(tmp_path: Path) -> None:
    """Its second attempt writes all of it again, under another name."""
    options = source.SourceOptions(paths=(CAPTURES[0],))
    (partition,) = source.partitions_of(source.parts_of(source.chains(CAPTURES[:1]), options))
    with Ledger(str(tmp_path)) as ledger:
        root = tmp_path / ledger.staging("frames")
        for _ in range(2):
            complete = list(frame_table._write(options, str(root), 1, [partition]))
        ledger.only_complete("frames", complete)
        assert len(list(root.rglob("*.parquet"))) == 2 * len(complete) > 0
        ledger.commit("ingest", ["frames"])
        found = Tables.of(ledger).files("frames")
    assert len(found) == len(complete)
    assert sum(pq.read_metadata(tmp_path / file).num_rows for file in found) == len(golden.decoded(Path(CAPTURES[0])))
    assert not root.exists()


def test_nothing_is_written_of_no_captures(spark: SparkSession, tmp_path: Path) -> None:
    assert written(spark, tmp_path, []) == []
