"""Deliveries, each with what became of it, and the publish that it came from."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from amqproxy.pipeline.schema import DELIVERIES
from amqproxy.pipeline.settle.carry import as_open
from amqproxy.pipeline.settle.journeys import REFERENCE, Journeys
from amqproxy.pipeline.settle.kept import Kept
from amqproxy.pipeline.settle.messages import is_given_up
from amqproxy.pipeline.settle.settlements import is_same_time, joined, latency_ns, settlements

_FROM_EVENTS = (
    *("chain", "connection_id", "stream", "connection", "leg", "file", "ts_ns", "time", "seq", "channel", "epoch"),
    *("type", "sender", "number", "delivery_tag", "consumer_tag", "awaits", "exchange", "routing_key", "queue"),
    *("redelivered", "size", "message_id", "headers", "properties", "digest", "body", "verdict", "rules", "tags"),
)
_LINKED = ("redelivery_count", *REFERENCE)


class Deliveries:
    """The deliveries of a batch, and those before it that were open. `age_ns` is as for `Publishes`."""

    def __init__(
        self,
        events: DataFrame,
        carried: DataFrame,
        who: DataFrame,
        journeys: Journeys,
        kept: Kept,
        *,
        age_ns: int | None,
    ) -> None:
        is_delivery = sf.col("type").isin("deliver", "get")
        fresh = joined(
            events.where(is_delivery).select(*_FROM_EVENTS), journeys.links(), sf.col("seq") - sf.col("link_seq") == 0
        )
        fresh = fresh.withColumn("redelivery_count", _redelivery_count()).select(*_FROM_EVENTS, *_LINKED)
        rows = fresh.unionByName(carried.where(is_delivery).select(fresh.columns))
        rows = rows.join(sf.broadcast(who), "connection_id", "left")
        rows = joined(rows, settlements(events, "deliveries-settled"), is_same_time("ts_ns", "of_ns"))
        given_up = sf.when(is_given_up(age_ns), "unknown")
        outcome = sf.when(~sf.col("awaits"), "auto-acked").otherwise(sf.coalesce("settlement", given_up))
        self._rows = kept.shared(rows.withColumn("outcome", outcome).drop("of_ns", "end_seq"))

    def settled(self) -> DataFrame:
        """A row for each of which it is known what became of it: `schema.DELIVERIES`."""
        known = self._rows.where(sf.col("outcome").isNotNull()).withColumns(
            {
                "kind": sf.col("type"),
                "requeue": sf.col("settled_requeue"),
                "latency_ns": latency_ns(sf.col("outcome")),
                "transit_ns": sf.col("ts_ns") - sf.col("published_ns"),
            }
        )
        return known.select(*DELIVERIES.fieldNames())

    def open(self) -> DataFrame:
        """Those that are open, as `carry.OPEN`."""
        return as_open(self._rows.where(sf.col("outcome").isNull()).select(*_FROM_EVENTS, *_LINKED))


def _redelivery_count() -> Column:
    """How often it was delivered before: as the broker says in its headers, else as it was seen."""
    headers = sf.col("headers")
    of_quorum = sf.when(
        headers.contains('"x-delivery-count"'), sf.get_json_object(headers, "$.x-delivery-count").cast("long")
    )
    deaths = sf.from_json(sf.get_json_object(headers, "$.x-death"), "array<struct<count: bigint>>")
    of_deaths = sf.when(
        headers.contains('"x-death"'),
        sf.aggregate(deaths, sf.lit(0).cast("long"), lambda sum, each: sum + each["count"]),
    )
    seen = sf.when(sf.col("redelivered"), sf.greatest(sf.coalesce("redelivery_count", sf.lit(1)), sf.lit(1))).otherwise(
        0
    )
    return sf.coalesce(of_quorum, of_deaths, seen)
