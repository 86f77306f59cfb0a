"""Rows of the pipeline's tables, made by hand: what is not named is null."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from amqproxy.pipeline.schema import TABLES, stored

Row = dict[str, Any]

SECOND = 1_000_000_000
DAY = 86_400 * SECOND

_TIMES = {"connections": "opened_ns", "channels": "opened_ns"}


def at(text: str) -> int:
    """A time in nanoseconds since 1970: "2026-11-02 10:00"."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


def row(table: str, ts_ns: int, **values: Any) -> Row:
    """A row of `table` at a time, with the columns that it has on disk."""
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ts_ns // 1000)
    found: Row = dict.fromkeys(stored(TABLES[table]).names)
    found |= {"chain": "a", "connection_id": "0" * 16} if "chain" in found else {}
    if "ts_ns" in found or table in _TIMES:
        found[_TIMES.get(table, "ts_ns")] = ts_ns
    for name in ("time", "minute", "hour_start"):
        if name in found:
            found[name] = time
    found |= {"date": time.date(), "hour": time.hour, "batch": 1}
    unknown = set(values) - set(found)
    assert not unknown, f"{table} has no {unknown}"
    return found | values


def arrow_of(table: str, rows: Iterable[Row]) -> pa.Table:
    """The rows as Arrow has them."""
    return pa.Table.from_pylist(list(rows), schema=to_arrow_schema(stored(TABLES[table]), timezone="UTC"))


def frame_of(spark: SparkSession, table: str, rows: Iterable[Row]) -> DataFrame:
    """The rows as Spark has them."""
    return spark.createDataFrame(arrow_of(table, rows), schema=stored(TABLES[table]))
