"""Tables on disk, through Spark: partitions, batches, and columns that come and go."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from amqproxy.pipeline.ledger import Ledger
from amqproxy.pipeline.schema import MESSAGES, TABLES
from amqproxy.pipeline.tables import Tables, batch_of, hour_of, stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.once

SEVEN, EIGHT = datetime(2026, 11, 23, 7, 59, 59, 999_999), datetime(2026, 11, 23, 8)  # noqa: DTZ001 - Spark's are naive


def messages(spark: SparkSession, *rows: tuple[int, datetime | None]) -> DataFrame:
    columns = MESSAGES["chain"], MESSAGES["number"], MESSAGES["time"]
    narrow = spark.createDataFrame([("c", *row) for row in rows], type(MESSAGES)([*columns]))
    return narrow.withColumns(
        {field.name: _null(field.dataType) for field in MESSAGES.fields if field.name not in narrow.columns}
    )


def _null(kind: Any) -> Any:
    from pyspark.sql import functions as sf

    return sf.lit(None).cast(kind)


def test_rows_lie_in_their_hours_and_are_read_by_batch(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path)
    with Ledger(path) as held:
        stage(held, "messages", messages(spark, (1, SEVEN), (2, EIGHT), (3, None)))
        assert Tables(path).names() == []
        held.commit("settle", ["messages"])
        stage(held, "messages", messages(spark, (4, SEVEN)))  # late
        held.commit("settle", ["messages"])
        stage(held, "messages", messages(spark, (5, SEVEN)))  # never committed
        tables = Tables.of(held)
        rows = {row.number: row for row in tables.read(spark, "messages").collect()}
        assert {number: (row.date, row.hour, row.batch) for number, row in rows.items()} == {
            1: (date(2026, 11, 23), 7, 1),
            2: (date(2026, 11, 23), 8, 1),
            3: (date(1970, 1, 1), 0, 1),
            4: (date(2026, 11, 23), 7, 2),
        }
        assert rows[1].time == SEVEN
        assert [row.number for row in tables.read(spark, "messages", after=1).collect()] == [4]
        assert sorted(row.number for row in tables.read(spark, "messages", hours=[("2026-11-23", 7)]).collect()) == [
            1,
            4,
        ]
        assert {(hour_of(file), batch_of(file)) for file in tables.files("messages")} == {
            (("2026-11-23", 7), 1),
            (("2026-11-23", 8), 1),
            (("1970-01-01", 0), 1),
            (("2026-11-23", 7), 2),
        }
        assert tables.read(spark, "errors").collect() == []
    by_anybody = spark.read.parquet(str(tmp_path / "messages"))
    assert by_anybody.where("date = '2026-11-23' and hour = 7").count() == 2


def test_a_new_column_hides_no_old_rows(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = type(MESSAGES)([*MESSAGES.fields, type(MESSAGES["size"])("weight", MESSAGES["size"].dataType)])
    with Ledger(str(tmp_path)) as held:
        stage(held, "messages", messages(spark, (1, SEVEN)))
        held.commit("settle", ["messages"])
        monkeypatch.setitem(TABLES, "messages", new)
        stage(held, "messages", messages(spark, (2, SEVEN)).selectExpr("*", "7L as weight"))
        held.commit("settle", ["messages"])
        found = Tables.of(held).read(spark, "messages").select("number", "weight").collect()
        assert sorted(map(tuple, found)) == [(1, None), (2, 7)]
        monkeypatch.setitem(TABLES, "messages", MESSAGES)  # and an older amqproxy reads what a newer one wrote
        assert sorted(row.number for row in Tables.of(held).read(spark, "messages").collect()) == [1, 2]
