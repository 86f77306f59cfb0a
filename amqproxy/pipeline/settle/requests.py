"""Synchronous methods, each with its reply."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from amqproxy.pipeline.schema import REQUESTS
from amqproxy.pipeline.settle.identity import with_who


def requests(events: DataFrame, who: DataFrame) -> DataFrame:
    """A row for each request of a batch: `schema.REQUESTS`. Its time is when it was sent."""
    sent_ns = sf.col("ts_ns") - sf.coalesce("latency_ns", sf.lit(0))
    rows = with_who(events.where(sf.col("type") == "request"), who).withColumns(
        {
            "ts_ns": sent_ns,
            "time": sf.timestamp_micros(sf.floor(sent_ns / 1000)),
            "latency_ns": sf.when(sf.col("outcome") == "answered", sf.col("latency_ns")),
        }
    )
    return rows.select(*REQUESTS.fieldNames())
