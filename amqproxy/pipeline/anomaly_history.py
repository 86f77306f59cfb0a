"""Hourly measures, kept between searches for anomalies, so that only hours with new rows are read.

Kept are all measures of the last `kept_days`, and of older hours only those in which a subject was first seen. Rows
that are later than `LATE_DAYS` cause all hours to be measured again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import DoubleType, LongType, StringType, StructType, TimestampType

from amqproxy.pipeline.anomalies import DAY, SUBJECT, hourly, recorded_hours, recorded_minutes
from amqproxy.pipeline.tables import Tables, read_state, write_state

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import DataFrame, SparkSession

    from amqproxy.pipeline.anomalies import AnomalySettings
    from amqproxy.pipeline.ledger import Ledger

COUNTED = ("messages", "deliveries", "connections", "errors")
"""Tables that are measured; `events` shows which hours were recorded."""

MEASURED, RECORDED = "measured-1", "recorded-1"
"""Names of the state carried to the next search. A new number measures everything again: raise it when measures
change.
"""

LATE_DAYS = 56
"""Maximum lateness of rows for which the kept measures suffice: an ended connection counts in the hour of its start."""

_RECORDED = StructType().add("hour_start", TimestampType()).add("minutes", LongType())
_MEASURED = (
    StructType()
    .add("hour_start", TimestampType())
    .add("subject", StringType())
    .add("name", StringType())
    .add("virtual_host", StringType())
    .add("value", DoubleType())
    .add("weight", LongType())
    .add("measure", StringType())
)


def history(
    spark: SparkSession, ledger: Ledger, starts: Collection[int], settings: AnomalySettings
) -> tuple[DataFrame, DataFrame]:
    """Return the input of `anomalies`: the measures, and the recorded hours; carry both to the next search.

    `starts` are the beginnings of the hours with new rows, in seconds since 1970.
    """
    tables = Tables.of(ledger)
    done = ledger.contents.through.get("anomalies", 0)
    before = _carried(spark, ledger, RECORDED, _RECORDED)
    if before is None:
        minutes = recorded_minutes(tables.read(spark, "events"))
    else:
        both = before.unionByName(recorded_minutes(tables.read(spark, "events", after=done)))
        minutes = spark.sql("SELECT hour_start, bit_or(minutes) AS minutes FROM {both} GROUP BY hour_start", both=both)
    kept = None if before is None else _kept(spark, ledger, before, min(starts), settings)
    if kept is None:
        measured = hourly(*(tables.read(spark, name) for name in COUNTED))
    else:
        hours = {_hour(start) for start in starts}
        again = hourly(*(tables.read(spark, name, hours=hours) for name in COUNTED))
        others = kept.where(f"unix_seconds(hour_start) NOT IN ({', '.join(map(str, starts))})")
        measured = others.unionByName(again)
    found = _carry(ledger, MEASURED, measured, _MEASURED), _carry(ledger, RECORDED, minutes, _RECORDED)
    return found[0], recorded_hours(found[1])


def kept_days(settings: AnomalySettings) -> int:
    """Return the number of days before the last recorded one for which all measures are kept."""
    return settings.history_days + LATE_DAYS


def _kept(
    spark: SparkSession, ledger: Ledger, recorded: DataFrame, first: int, settings: AnomalySettings
) -> DataFrame | None:
    """Return the earlier measures that are still needed; `None` if they do not reach back far enough."""
    measured = _carried(spark, ledger, MEASURED, _MEASURED)
    ((last,),) = spark.sql("SELECT max(unix_seconds(hour_start)) AS last FROM {rows}", rows=recorded).collect()
    since = (last or 0) - kept_days(settings) * DAY
    if measured is None or first - settings.history_days * DAY < since:
        return None
    return spark.sql(_KEPT, rows=measured, since=since)


_KEPT = f"""
    SELECT {", ".join(_MEASURED.fieldNames())}
    FROM (SELECT *, min(hour_start) OVER (PARTITION BY {", ".join(SUBJECT)}, measure) AS beginning FROM {{rows}})
    WHERE unix_seconds(hour_start) >= {{since}} OR hour_start = beginning
"""


def _carried(spark: SparkSession, ledger: Ledger, name: str, columns: StructType) -> DataFrame | None:
    path = ledger.carried("anomalies", name)
    return None if path is None else read_state(spark, columns, f"{ledger.path}/{path}")


def _carry(ledger: Ledger, name: str, rows: DataFrame, columns: StructType) -> DataFrame:
    """Write rows for the next search, and return them as written."""
    path = f"{ledger.path}/{ledger.carry(name)}"
    write_state(rows.coalesce(1), path, columns)
    return read_state(rows.sparkSession, columns, path)


def _hour(start: int) -> tuple[str, int]:
    """Return date and hour as in the directory names of tables."""
    from datetime import UTC, datetime

    time = datetime.fromtimestamp(start, UTC)
    return time.date().isoformat(), time.hour
