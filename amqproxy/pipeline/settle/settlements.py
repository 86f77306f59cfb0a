"""What was settled, a row for each number, from the ranges in which it was settled."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

KEY = ("connection_id", "channel", "epoch", "number")
"""What a settlement names. A number may come twice, with another time: see `is_same_time`."""


def settlements(events: DataFrame, kind: str) -> DataFrame:
    """A row for each number of the ranges that events of a type (`publishes-settled` or `deliveries-settled`) have.

    It has the columns of `KEY`, `of_ns` (when what it settles began), `settlement`, `settled_ns`, `settled_requeue`.
    """
    ranges = events.where((sf.col("type") == kind) & (sf.size("spans") > 0)).select(
        "connection_id",
        "channel",
        "epoch",
        sf.col("outcome").alias("settlement"),
        sf.col("ts_ns").alias("settled_ns"),
        sf.col("requeue").alias("settled_requeue"),
        sf.explode("spans").alias("span"),
    )
    return ranges.select(
        "connection_id",
        "channel",
        "epoch",
        sf.explode(sf.sequence("span.first", "span.last")).alias("number"),
        sf.col("span.ts_ns").alias("of_ns"),
        "settlement",
        "settled_ns",
        "settled_requeue",
    )


def joined(rows: DataFrame, found: DataFrame, condition: Column) -> DataFrame:
    """Rows with what was found for their numbers, if `condition` holds.

    Only the columns of `KEY` are keys of the join, so that one exchange of the wide rows serves all that is found.
    """
    renamed = found.select(
        *(sf.col(name).alias(f"_{name}") for name in KEY), *(name for name in found.columns if name not in KEY)
    )
    on = condition
    for name in KEY:
        on = on & (sf.col(name) == sf.col(f"_{name}"))
    return rows.join(renamed, on, "left").drop(*(f"_{name}" for name in KEY))


def is_same_time(one: str, other: str) -> Column:
    """Are two times the same? So written, it is no key of a join."""
    return sf.col(one) - sf.col(other) == 0


def latency_ns(outcome: Column) -> Column:
    """From the message to what became of it; null where nothing was seen to become of it."""
    return sf.when(~outcome.isin("open", "unknown"), sf.col("settled_ns") - sf.col("ts_ns"))
