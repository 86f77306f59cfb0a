"""What happened in each minute: by connection, exchange, queue and user, and by all together.

A minute is that of the publish or the delivery, whenever it is known what became of it: so a minute of which more has
been settled is made anew from all that is in the tables, whatever batches that came in. Percentiles are of a histogram
with `WIDTH`: no more than 1 % beside an exact one, and the same however the rows are divided; a longest is exact.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from amqproxy.pipeline.schema import ROLLUP_MINUTE

WIDTH = 1.02
"""The bounds of each range of the histograms are so far apart: its middle is 1 % beside both."""

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
MEASURES = ("confirm", "ack", "transit")

_COUNTS = (
    *("published", "published_bytes", "confirmed", "nacked_publishes", "returned"),
    *("delivered", "delivered_bytes", "acked", "nacked", "rejected", "redelivered", "open", "errors"),
)
_OF = {"connection": "connection", "exchange": "exchange", "queue": "queue", "user": "user", "all": None}
"""By what rows are gathered, and the column that names it."""
_ATTRIBUTES = ("connection", "user", "virtual_host", "exchange", "queue")


def rollup_minute(
    messages: DataFrame,
    deliveries: DataFrame,
    connections: DataFrame,
    errors: DataFrame,
    *,
    hours: Collection[tuple[str, int]] | None = None,
) -> DataFrame:
    """A row for each minute and connection, exchange, queue and user that something happened to: `ROLLUP_MINUTE`.

    What has no exchange, queue or user is only counted by the others. With `hours` (the UTC date as text, and the
    hour), only their minutes: those are complete if all that is in these hours is given, and the connections of all.
    """
    cells = _cells(messages, deliveries, connections, errors)
    if hours is not None:
        hour = sf.date_format("minute", "yyyy-MM-dd H")
        cells = cells.where(hour.isin(*(f"{date} {number}" for date, number in hours)))
    gathered = reduce(DataFrame.unionAll, [_by(cells, by, column) for by, column in _OF.items()])
    sums = gathered.groupBy("minute", "by", "name", "virtual_host", "measure", "bucket").agg(
        *(sf.sum(name).alias(name) for name in (*_COUNTS, "count")), sf.max("longest").alias("longest")
    )
    return _with_percentiles(sums)


def _cells(messages: DataFrame, deliveries: DataFrame, connections: DataFrame, errors: DataFrame) -> DataFrame:
    """Counts by minute, all attributes, and range of latency: far fewer rows than messages."""
    minute = sf.date_trunc("minute", sf.col("time"))
    outcome = sf.col("outcome")
    confirm = sf.when(outcome == "confirmed", sf.col("latency_ns"))
    published = _counted(
        messages.withColumns({"minute": minute, "queue": sf.lit(None).cast("string"), "confirm": confirm}),
        {
            "published": sf.lit(1),
            "published_bytes": sf.coalesce("size", sf.lit(0)),
            "confirmed": _one(outcome == "confirmed"),
            "nacked_publishes": _one(outcome == "nacked"),
            "returned": _one(sf.col("route").isNotNull()),
        },
        ("confirm",),
    )
    acked = sf.when(outcome == "acked", sf.col("latency_ns"))
    delivered = _counted(
        deliveries.withColumns({"minute": minute, "ack": acked, "transit": sf.col("transit_ns")}),
        {
            "delivered": sf.lit(1),
            "delivered_bytes": sf.coalesce("size", sf.lit(0)),
            "acked": _one(outcome == "acked"),
            "nacked": _one(outcome == "nacked"),
            "rejected": _one(outcome == "rejected"),
            "redelivered": _one(sf.col("redelivered")),
        },
        ("ack", "transit"),
    )
    nowhere = {name: sf.lit(None).cast("string") for name in ("exchange", "queue")}
    last = sf.coalesce(sf.timestamp_micros(sf.floor(sf.col("closed_ns") / 1000)), sf.col("time"))
    minutes = sf.explode(sf.sequence(minute, sf.date_trunc("minute", last), sf.expr("interval 1 minute")))
    living = _counted(connections.withColumns({"minute": minutes, **nowhere}), {"open": sf.lit(1)}, ())
    failed = _counted(
        errors.where(sf.col("time").isNotNull()).withColumns({"minute": minute, **nowhere}), {"errors": sf.lit(1)}, ()
    )
    return reduce(DataFrame.unionAll, [published, delivered, living, failed])


def _one(condition: Column) -> Column:
    return sf.when(condition, 1).otherwise(0)


def _counted(rows: DataFrame, counts: dict[str, Column], latencies: tuple[str, ...]) -> DataFrame:
    """The counts of rows in one cell each, and a cell for each range of each latency."""
    given = {name: counts.get(name, sf.lit(0)).cast("long") for name in _COUNTS}
    of_count = sf.struct(
        sf.lit(None).cast("string").alias("measure"),
        sf.lit(None).cast("int").alias("bucket"),
        sf.lit(None).cast("long").alias("value"),
    )
    of_latency = [
        sf.when(
            sf.col(name).isNotNull(),
            sf.struct(
                sf.lit(name).alias("measure"), _bucket(sf.col(name)).alias("bucket"), sf.col(name).alias("value")
            ),
        )
        for name in latencies
    ]
    cells = sf.explode(sf.filter(sf.array(of_count, *of_latency), lambda each: each.isNotNull()))
    one = rows.select("minute", *_ATTRIBUTES, *(given[name].alias(name) for name in _COUNTS), cells.alias("cell"))
    is_count = sf.col("cell.measure").isNull()
    return one.groupBy(
        "minute", *_ATTRIBUTES, sf.col("cell.measure").alias("measure"), sf.col("cell.bucket").alias("bucket")
    ).agg(
        *(sf.sum(sf.when(is_count, sf.col(name)).otherwise(0)).alias(name) for name in _COUNTS),
        sf.count("cell.value").alias("count"),
        sf.max("cell.value").alias("longest"),
    )


def _bucket(latency_ns: Column) -> Column:
    """The range of a latency: number n is of those above `WIDTH`ⁿ⁻¹ up to `WIDTH`ⁿ; 0 up to 1 ns."""
    return sf.ceil(sf.log(sf.greatest(latency_ns, sf.lit(1)).cast("double")) / math.log(WIDTH)).cast("int")


def _middle(bucket: Column) -> Column:
    """What a range stands for: as far beside each of its bounds."""
    return sf.round(sf.pow(sf.lit(WIDTH), bucket.cast("double")) * (2 / (1 + WIDTH))).cast("long")


def _by(cells: DataFrame, by: str, column: str | None) -> DataFrame:
    name = sf.lit(None).cast("string") if column is None else sf.col(column)
    rows = cells if column is None else cells.where(sf.col(column).isNotNull())
    host = sf.col("virtual_host")
    return rows.select(
        "minute",
        sf.lit(by).alias("by"),
        name.alias("name"),
        host.alias("virtual_host"),
        *("measure", "bucket", *_COUNTS, "count", "longest"),
    )


def _with_percentiles(sums: DataFrame) -> DataFrame:
    key = ("minute", "by", "name", "virtual_host")
    of_measure = Window.partitionBy(*key, "measure")
    so_far = of_measure.orderBy("bucket").rowsBetween(Window.unboundedPreceding, 0)
    ranked = sums.withColumns({"so_far": sf.sum("count").over(so_far), "all": sf.sum("count").over(of_measure)})
    found = []
    for measure in MEASURES:
        is_it = sf.col("measure") == measure
        for name, quantile in QUANTILES.items():
            reached = is_it & (sf.col("so_far") >= sf.ceil(sf.col("all") * sf.lit(quantile)))
            value = _middle(sf.min(sf.when(reached, sf.col("bucket"))))
            found.append(sf.least(value, sf.max(sf.when(is_it, sf.col("longest")))).alias(f"{measure}_{name}_ns"))
        found.append(sf.max(sf.when(is_it, sf.col("longest"))).alias(f"{measure}_max_ns"))
    totals = ranked.groupBy(*key).agg(*(sf.sum(name).alias(name) for name in _COUNTS), *found)
    return totals.withColumn("time", sf.col("minute")).select(*ROLLUP_MINUTE.fieldNames())
