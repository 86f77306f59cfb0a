"""What went wrong, and what could not be read."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from amqproxy.pipeline.schema import ERRORS
from amqproxy.pipeline.settle.identity import with_who

NORMAL_CODES = (0, 200)
"""Reply codes of a close that is no error: 200, and 0 as py-amqp and Kombu send it."""


def errors(events: DataFrame, who: DataFrame) -> DataFrame:
    """A row for each thing that went wrong in a batch: `schema.ERRORS`. What is settled at once is one row."""
    kind = _kind()
    found = events.where(kind.isNotNull())
    rows = with_who(found, who).withColumns({"text": _text(), "method": _method(), "kind": kind})
    return rows.select(*ERRORS.fieldNames())


def _kind() -> Column:
    type, outcome, unknown = sf.col("type"), sf.col("outcome"), sf.col("is_unknown_tag")
    is_closed = outcome == "closed"
    is_error = ~sf.coalesce(sf.col("code"), sf.lit(0)).isin(*NORMAL_CODES)
    return (
        sf.when((type == "channel") & is_closed & is_error, "channel-closed")
        .when((type == "connection") & is_closed & is_error, "connection-closed")
        .when((type == "connection") & is_closed & sf.col("by").isNull() & sf.col("is_open"), "connection-cut")
        .when(type == "return", "returned")
        .when(type.isin("publishes-settled", "deliveries-settled") & unknown, "unknown-tag")
        .when((type == "publishes-settled") & (outcome == "nacked"), "nacked")
        .when(type.isin("publish", "deliver", "get") & (sf.col("verdict") == "refused"), "refused")
        .when(type == "lost", "lost")
    )


def _text() -> Column:
    count = sf.aggregate(
        "spans", sf.lit(0).cast("long"), lambda sum, each: sum + each["last"] - each["first"] + sf.lit(1).cast("long")
    )
    settled = sf.when(sf.col("is_unknown_tag"), sf.concat_ws(" ", sf.lit("unknown tag"), sf.col("tag"))).otherwise(
        sf.concat(count.cast("string"), sf.lit(" publishes"))
    )
    return sf.coalesce("text", sf.when(sf.col("type").endswith("-settled"), settled))


def _method() -> Column:
    by_outcome = sf.create_map(*(sf.lit(each) for pair in _SETTLED_BY.items() for each in pair))[sf.col("outcome")]
    return sf.coalesce("method", sf.when(sf.col("type").endswith("-settled"), by_outcome))


_SETTLED_BY = {
    "confirmed": "basic.ack",
    "acked": "basic.ack",
    "nacked": "basic.nack",
    "rejected": "basic.reject",
}
