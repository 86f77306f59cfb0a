"""Publishes, each with what became of it: its route, its confirm, its transaction."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from amqproxy.pipeline.schema import MESSAGES
from amqproxy.pipeline.settle.carry import RETURN_NS, as_open
from amqproxy.pipeline.settle.kept import Kept
from amqproxy.pipeline.settle.settlements import KEY, is_same_time, joined, latency_ns, settlements

_FROM_EVENTS = (
    *("chain", "connection_id", "stream", "connection", "leg", "file", "ts_ns", "time", "seq", "channel", "epoch"),
    *("type", "sender", "number", "confirm_tag", "awaits", "exchange", "routing_key", "mandatory", "size"),
    *("content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to"),
    *("expiration", "message_id", "message_timestamp", "message_type", "user_id", "app_id", "cluster_id"),
    *("properties", "digest", "body", "code", "text", "verdict", "rules", "tags"),
)
"""The columns that a publish has, and in `code` and `text`, when it is carried, those of its return."""


class Publishes:
    """The publishes of a batch, and of those before it that were open.

    `age_ns`: those that have been open for longer, before the end of their chain, are given up; None for never.
    """

    def __init__(
        self, events: DataFrame, carried: DataFrame, who: DataFrame, kept: Kept, *, age_ns: int | None
    ) -> None:
        rows = events.unionByName(carried.select(events.columns)).where(sf.col("type") == "publish")
        rows = rows.select(*_FROM_EVENTS).join(sf.broadcast(who), "connection_id", "left")
        rows = joined(rows, _returns(events), _may_be_returned())
        rows = joined(rows, settlements(events, "publishes-settled"), is_same_time("ts_ns", "of_ns"))
        self._rows = kept.shared(
            rows.withColumn("outcome", _outcome(age_ns)).drop("of_ns", "settled_requeue", "end_seq")
        )

    def settled(self) -> DataFrame:
        """A row for each of which it is known what became of it: `schema.MESSAGES`."""
        returned = sf.col("return_code").isNotNull() | sf.col("code").isNotNull()
        known = self._rows.where(sf.col("outcome").isNotNull()).withColumns(
            {
                "route": sf.when(returned, "returned"),
                "return_code": sf.coalesce("return_code", "code"),
                "return_text": sf.coalesce("return_text", "text"),
                "latency_ns": latency_ns(sf.col("outcome")),
            }
        )
        return known.select(*MESSAGES.fieldNames())

    def open(self) -> DataFrame:
        """Those that are open, as `carry.OPEN`."""
        unknown = self._rows.where(sf.col("outcome").isNull()).withColumns(
            {"code": sf.coalesce("return_code", "code"), "text": sf.coalesce("return_text", "text")}
        )
        return as_open(unknown.select(*_FROM_EVENTS))


def _returns(events: DataFrame) -> DataFrame:
    returned = events.where((sf.col("type") == "return") & sf.col("number").isNotNull())
    return returned.select(
        *KEY,
        sf.col("code").alias("return_code"),
        sf.col("text").alias("return_text"),
        sf.col("ts_ns").alias("returned_ns"),
        sf.col("seq").alias("returned_seq"),
    )


def _may_be_returned() -> Column:
    """A return comes before the confirm; where there is none, in time and before the end of the connection."""
    in_time = sf.col("returned_ns") - sf.col("ts_ns") <= RETURN_NS
    before_end = sf.col("end_seq").isNull() | (sf.col("returned_seq") < sf.col("end_seq"))
    return sf.coalesce(sf.col("awaits"), sf.lit(False)) | (in_time & before_end)


def _outcome(age_ns: int | None) -> Column:
    waits_for_return = (
        sf.coalesce("mandatory", sf.lit(False))
        & sf.col("return_code").isNull()
        & sf.col("end_seq").isNull()
        & (sf.col("horizon_ns") - sf.col("ts_ns") <= RETURN_NS)
    )
    is_old = is_given_up(age_ns)
    return (
        sf.when(sf.col("awaits"), sf.coalesce("settlement", sf.when(is_old, "unknown")))
        .when(sf.col("awaits").isNull(), "unknown")
        .when(~waits_for_return | is_old, "sent")
    )


def is_given_up(age_ns: int | None) -> Column:
    """Has a message been open for so long that nothing is to be expected any more?"""
    if age_ns is None:
        return sf.lit(False)
    return sf.coalesce(sf.col("horizon_ns") - sf.col("ts_ns") >= age_ns, sf.lit(True))
