"""What each hour was measured to be, kept from one search for anomalies to the next: only hours with new rows are read.

Kept are all measures of the last `kept_days`, and of older hours only those in which something was seen first. What is
late by more than `LATE_DAYS` has everything measured anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as fn

from amqproxy.pipeline import storage
from amqproxy.pipeline.anomalies import DAY, SUBJECT, hourly, recorded_hours, recorded_minutes
from amqproxy.pipeline.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import DataFrame, SparkSession

    from amqproxy.pipeline.anomalies import AnomalySettings
    from amqproxy.pipeline.ledger import Ledger

COUNTED = ("messages", "deliveries", "connections", "errors")
"""What is measured; the hours that were recorded are seen by `events`."""

MEASURED, RECORDED = "measured-1", "recorded-1"
"""What is carried to the next search. Another number has everything measured anew: raise it when measures change."""

LATE_DAYS = 56
"""How late rows may be for which what is kept is enough: a connection that has ended counts in the hour it began."""

_MEASURED = (
    "hour_start TIMESTAMP, subject STRING, name STRING, virtual_host STRING, value DOUBLE, weight LONG, measure STRING"
)
_RECORDED = "hour_start TIMESTAMP, minutes LONG"


def history(
    spark: SparkSession, ledger: Ledger, starts: Collection[int], settings: AnomalySettings
) -> tuple[DataFrame, DataFrame]:
    """What `anomalies` judges: what was measured, and which hours were recorded. It is carried to the next search.

    `starts` are when the hours begin that have new rows, in s since 1970.
    """
    tables = Tables.of(ledger)
    done = ledger.contents.through.get("anomalies", 0)
    before = _carried(spark, ledger, RECORDED, _RECORDED)
    if before is None:
        minutes = recorded_minutes(tables.read(spark, "events"))
    else:
        both = before.unionByName(recorded_minutes(tables.read(spark, "events", after=done)))
        minutes = both.groupBy("hour_start").agg(fn.bit_or("minutes").alias("minutes"))
    kept = None if before is None else _kept(spark, ledger, before, min(starts), settings)
    if kept is None:
        measured = hourly(*(tables.read(spark, name) for name in COUNTED))
    else:
        hours = {_hour(start) for start in starts}
        again = hourly(*(tables.read(spark, name, hours=hours) for name in COUNTED))
        measured = kept.where(~fn.unix_seconds("hour_start").isin(*starts)).unionByName(again)
    found = _carry(ledger, MEASURED, measured), _carry(ledger, RECORDED, minutes)
    return found[0], recorded_hours(found[1])


def kept_days(settings: AnomalySettings) -> int:
    """How many days before the last one that was recorded all measures are kept."""
    return settings.history_days + LATE_DAYS


def _kept(
    spark: SparkSession, ledger: Ledger, recorded: DataFrame, first: int, settings: AnomalySettings
) -> DataFrame | None:
    """What is still needed of what was measured before; None where that does not reach back far enough."""
    measured = _carried(spark, ledger, MEASURED, _MEASURED)
    (last,) = recorded.agg(fn.max(fn.unix_seconds("hour_start"))).collect()[0]
    since = (last or 0) - kept_days(settings) * DAY
    if measured is None or first - settings.history_days * DAY < since:
        return None
    beginning = fn.min("hour_start").over(Window.partitionBy(*SUBJECT, "measure"))
    is_first = fn.col("hour_start") == fn.col("beginning")
    return (
        measured.withColumn("beginning", beginning)
        .where((fn.unix_seconds("hour_start") >= since) | is_first)
        .drop("beginning")
    )


def _carried(spark: SparkSession, ledger: Ledger, name: str, columns: str) -> DataFrame | None:
    path = ledger.carried("anomalies", name)
    return None if path is None else spark.read.schema(columns).parquet(storage.spark_path(f"{ledger.path}/{path}"))


def _carry(ledger: Ledger, name: str, rows: DataFrame) -> DataFrame:
    """Write what is carried to the next search: the same, as it was written."""
    path = storage.spark_path(f"{ledger.path}/{ledger.carry(name)}")
    rows.coalesce(1).write.mode("overwrite").parquet(path)
    return rows.sparkSession.read.schema(rows.schema).parquet(path)


def _hour(start: int) -> tuple[str, int]:
    """The date and the hour, as directories of tables are called."""
    from datetime import UTC, datetime

    time = datetime.fromtimestamp(start, UTC)
    return time.date().isoformat(), time.hour
