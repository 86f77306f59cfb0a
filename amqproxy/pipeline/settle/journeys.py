"""Which publish each delivery came from, on whichever connections: by message_id, else by what is in it.

Content is recognised by its virtual host and message_id; without one, by its exchange, routing key and digest. What is
alike is told apart by its place: the first that a queue delivers is the first that was published, and so on. Counting
begins anew when nothing alike was published for the window, and a delivery that comes later than that after its publish
is linked to none. What was delivered before is linked only if nothing alike had been published since.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from amqproxy.pipeline.settle.carry import PUBLISHED, SEEN, as_open
from amqproxy.pipeline.settle.kept import Kept

REFERENCE = ("published_connection_id", "published_channel", "published_epoch", "published_number", "published_ns")
"""The columns that say which publish a delivery came from."""

_OF_EVENT = ("connection_id", "channel", "epoch", "number", "ts_ns", "seq")


class Journeys:
    """The publishes and deliveries of a batch, and what is carried of those before it, by their content."""

    def __init__(
        self, events: DataFrame, carried: DataFrame, who: DataFrame, horizon: DataFrame, kept: Kept, *, window_ns: int
    ) -> None:
        self._horizon = horizon
        self._window_ns = window_ns
        rows = _contents(events, who).unionByName(_known(carried))
        order = ("ts_ns", "rank", "connection_id", "seq")
        alike = Window.partitionBy("content_key").orderBy(*order).rowsBetween(Window.unboundedPreceding, 0)
        before = Window.partitionBy("content_key").orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
        is_publish = sf.col("rank") == 0
        rows = rows.withColumns(
            {
                "last_ns": sf.max(sf.when(is_publish, sf.col("ts_ns"))).over(before),
                "all": sf.coalesce(sf.max("occurrence").over(alike), sf.lit(0))
                + sf.sum(sf.when(is_publish & sf.col("occurrence").isNull(), 1).otherwise(0)).over(alike),
            }
        )
        begins = is_publish & (sf.col("ts_ns") - sf.col("last_ns") > window_ns)
        rows = rows.withColumn("base", sf.coalesce(sf.max(sf.when(begins, sf.col("all") - 1)).over(alike), sf.lit(0)))
        rows = rows.withColumn("published", sf.col("all") - sf.col("base"))
        queue = (
            Window.partitionBy("content_key", "base", "queue_key")
            .orderBy(*order)
            .rowsBetween(Window.unboundedPreceding, 0)
        )
        self._rows = kept.shared(
            rows.withColumns({"delivered": sf.sum("is_first").over(queue), "seen_so_far": sf.sum("seen").over(queue)})
        )

    def links(self) -> DataFrame:
        """A row for each delivery of the batch: `connection_id`, `channel`, `epoch`, `number`, its `link_seq`, its
        `redelivery_count` as far as it was seen, and `REFERENCE`.
        """
        is_publish = sf.col("rank") == 0
        only = sf.when(sf.col("published") == 1, 1)
        place = (
            sf.when(is_publish, sf.col("published")).when(sf.col("is_first") == 1, sf.col("delivered")).otherwise(only)
        )
        rows = self._rows.where(sf.col("rank") != 1).withColumn("place", place)
        same = Window.partitionBy("content_key", "base", "place").orderBy("rank")
        found = sf.first(sf.when(is_publish, sf.struct("connection_id", "channel", "epoch", "number", "ts_ns")))
        linked = rows.withColumn("publish", found.over(same)).where(~is_publish)
        in_time = (sf.col("ts_ns") - sf.col("publish.ts_ns")).between(0, self._window_ns)
        reference = zip(REFERENCE, ("connection_id", "channel", "epoch", "number", "ts_ns"), strict=True)
        return linked.select(
            *("connection_id", "channel", "epoch", "number", sf.col("seq").alias("link_seq")),
            (sf.col("seen_so_far") - 1).alias("redelivery_count"),
            *(
                sf.when(in_time & sf.col("place").isNotNull(), sf.col(f"publish.{of}")).alias(name)
                for name, of in reference
            ),
        )

    def open(self) -> DataFrame:
        """What the next batch is to know, as `carry.OPEN`: what was published, and how often it was delivered."""
        latest = Window.partitionBy("content_key")
        rows = self._rows.join(sf.broadcast(self._horizon), "chain", "left")
        rows = rows.withColumns(
            {
                "latest_ns": sf.max(sf.when(sf.col("rank") == 0, sf.col("ts_ns"))).over(latest),
                "latest_base": sf.max("base").over(latest),
            }
        )
        begin = sf.col("horizon_ns") - self._window_ns
        rows = rows.where((sf.col("latest_ns") >= begin) & (sf.col("base") == sf.col("latest_base")))
        published = rows.where((sf.col("rank") == 0) & (sf.col("ts_ns") >= begin)).select(
            *("chain", "content_key", "connection_id", "channel", "epoch", "number", "ts_ns", "seq"),
            sf.lit(PUBLISHED).alias("type"),
            sf.col("published").alias("occurrence"),
        )
        seen = (
            rows.where(sf.col("rank") != 0)
            .groupBy("content_key", "queue_key")
            .agg(
                sf.max("chain").alias("chain"),
                sf.max("ts_ns").alias("ts_ns"),
                sf.max("delivered").alias("occurrence"),
                sf.max("seen_so_far").alias("seen"),
            )
            .withColumn("type", sf.lit(SEEN))
        )
        return as_open(published).unionByName(as_open(seen))


def _contents(events: DataFrame, who: DataFrame) -> DataFrame:
    """What was published and delivered in a batch, narrow: `rank` is 0 for a publish, 2 for a delivery."""
    is_publish = sf.col("type") == "publish"
    rows = events.where(sf.col("type").isin("publish", "deliver", "get")).drop("virtual_host")
    rows = rows.join(sf.broadcast(who.select("connection_id", "virtual_host")), "connection_id", "left")
    rows = rows.where(_content_key().isNotNull())
    queue = sf.coalesce(sf.col("queue"), sf.concat_ws(" ", "connection_id", "channel", "consumer_tag"))
    return rows.select(
        "chain",
        _content_key().alias("content_key"),
        *_OF_EVENT,
        sf.when(is_publish, 0).otherwise(2).alias("rank"),
        sf.when(~is_publish, sf.xxhash64("virtual_host", queue)).alias("queue_key"),
        sf.when(is_publish | sf.col("redelivered"), 0).otherwise(1).cast("long").alias("is_first"),
        sf.when(is_publish, 0).otherwise(1).cast("long").alias("seen"),
        sf.lit(None).cast("long").alias("occurrence"),
    )


def _known(carried: DataFrame) -> DataFrame:
    """What is carried of contents: `rank` is 0 for a publish, 1 for how often a queue has delivered it."""
    is_publish = sf.col("type") == PUBLISHED
    return carried.where(sf.col("type").isin(PUBLISHED, SEEN)).select(
        "chain",
        "content_key",
        *_OF_EVENT,
        sf.when(is_publish, 0).otherwise(1).alias("rank"),
        "queue_key",
        sf.when(is_publish, 0).otherwise(sf.col("occurrence")).cast("long").alias("is_first"),
        sf.when(is_publish, 0).otherwise(sf.col("seen")).cast("long").alias("seen"),
        sf.when(is_publish, sf.col("occurrence")).alias("occurrence"),
    )


def _content_key() -> Column:
    """By what content is recognised; null if that is not known."""
    by_id = sf.when(sf.col("message_id") != "", sf.xxhash64("virtual_host", "message_id", "size"))
    by_digest = sf.when(sf.col("digest").isNotNull(), sf.xxhash64("virtual_host", "exchange", "routing_key", "digest"))
    return sf.coalesce(by_id, by_digest)
