"""Connections and channels, from their beginning to their end, with what passed on them.

What is known of one is gathered batch by batch; a row is written when it has ended. What passes after its end, before
the other peer has seen it, is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from amqproxy.pipeline.schema import CHANNELS, CONNECTIONS
from amqproxy.pipeline.settle.carry import CHANNEL, CONNECTION, IDLE_NS, LINGER_NS, as_open
from amqproxy.pipeline.settle.identity import client_name, with_who
from amqproxy.pipeline.settle.kept import Kept

_HANDSHAKE = (
    *("user", "virtual_host", "mechanism", "client_properties", "server_properties"),
    *("channel_max", "frame_max", "heartbeat", "latency_ns"),
)
_CLOSE = ("closed_ns", "by", "code", "text", "method")
_TIMES = ("first_ns", "opened_ns", "last_ns")
_COUNTS = ("published", "delivered", "bytes")
_CHANNEL_KEY = ("connection_id", "channel", "epoch")


class Lives:
    """The connections and channels of a batch, and those before it that had not ended.

    Of the last batch, all are written, whether they have ended or not.
    """

    def __init__(
        self, events: DataFrame, carried: DataFrame, who: DataFrame, horizon: DataFrame, kept: Kept, *, is_last: bool
    ) -> None:
        self._who = who
        self._horizon = sf.broadcast(horizon)
        self._is_last = is_last
        counts = kept.small(_counts(events, who))
        self._connections = kept.small(_connections(events, counts, carried))
        self._channels = _channels(events, counts, carried)

    def connections(self) -> DataFrame:
        """A row for each connection that has ended: `schema.CONNECTIONS`."""
        rows = self._connections.join(self._horizon, "chain", "left").where(~sf.col("is_written") & self._has_ended())
        properties = sf.col("client_properties")
        opened_ns = sf.coalesce("opened_ns", "first_ns")
        rows = rows.withColumns(
            {
                "client": client_name(),
                "opened_ns": opened_ns,
                "time": sf.timestamp_micros(sf.floor(opened_ns / 1000)),
                "is_open": sf.col("closed_ns").isNull(),
                "closed_by": sf.col("by"),
                **{name: sf.get_json_object(properties, f"$.{name}") for name in ("product", "version", "platform")},
            }
        )
        return rows.select(*CONNECTIONS.fieldNames())

    def channels(self) -> DataFrame:
        """A row for each channel that has ended: `schema.CHANNELS`."""
        rows = self._with_ends().where(~sf.col("is_written") & self._has_ended())
        opened_ns = sf.coalesce("opened_ns", "first_ns")
        rows = with_who(rows, self._who).withColumns(
            {
                "opened_ns": opened_ns,
                "time": sf.timestamp_micros(sf.floor(opened_ns / 1000)),
                "closed_by": sf.col("by"),
            }
        )
        return rows.select(*CHANNELS.fieldNames())

    def open(self) -> DataFrame:
        """What is to be known of them in the next batch, as `carry.OPEN`."""
        found = []
        connections = self._connections.join(self._horizon, "chain", "left")
        for rows, kind in ((connections, CONNECTION), (self._with_ends(), CHANNEL)):
            lingers = sf.col("horizon_ns") - sf.col("closed_ns") <= LINGER_NS
            is_kept = sf.when(self._has_ended(), lingers).otherwise(True)
            kept = rows.where(sf.lit(not self._is_last) & sf.coalesce(is_kept, sf.lit(False)))
            found.append(as_open(kept.withColumns({"type": sf.lit(kind), "is_written": self._has_ended()})))
        return found[0].unionByName(found[1])

    def _with_ends(self) -> DataFrame:
        """The channels, with the ends of their connections as theirs."""
        ends = self._connections.select(
            "connection_id", sf.col("closed_ns").alias("end_ns"), sf.col("last_ns").alias("end_last_ns")
        )
        rows = self._channels.join(sf.broadcast(ends), "connection_id", "left")
        rows = rows.withColumns(
            {"closed_ns": sf.coalesce("closed_ns", "end_ns"), "last_ns": sf.greatest("last_ns", "end_last_ns")}
        )
        return rows.join(self._horizon, "chain", "left")

    def _has_ended(self) -> Column:
        if self._is_last:
            return sf.lit(True)
        is_idle = sf.col("horizon_ns") - sf.col("last_ns") > IDLE_NS
        return sf.col("closed_ns").isNotNull() | sf.coalesce(is_idle, sf.lit(False))


def _counts(events: DataFrame, who: DataFrame) -> DataFrame:
    """What passed on each channel: for it, and with `all_` before each name, for its connection."""
    rows = events.where(sf.col("connection_id").isNotNull()).select(
        "chain", "connection", *_CHANNEL_KEY, "ts_ns", "seq", "type", "size"
    )
    closes = _closes(events, "channel").select(*_CHANNEL_KEY, sf.col("seq").alias("close_seq"))
    rows = rows.join(closes, list(_CHANNEL_KEY), "left")
    rows = rows.join(sf.broadcast(who.select("connection_id", "end_seq")), "connection_id", "left")
    before_end = sf.coalesce(sf.col("seq") < sf.col("end_seq"), sf.lit(True))
    before_close = before_end & sf.coalesce(sf.col("seq") < sf.col("close_seq"), sf.lit(True))
    is_publish, is_delivery = sf.col("type") == "publish", sf.col("type").isin("deliver", "get")
    sums = {}
    for prefix, counted in (("", before_close), ("all_", before_end)):
        sums[f"{prefix}published"] = sf.count_if(is_publish & counted)
        sums[f"{prefix}delivered"] = sf.count_if(is_delivery & counted)
        size = sf.when((is_publish | is_delivery) & counted, sf.col("size")).otherwise(0)
        sums[f"{prefix}bytes"] = sf.sum(sf.coalesce(size, sf.lit(0)))
    is_life = ~sf.col("type").isin("publishes-settled", "deliveries-settled", "return", "finding", "lost", "state")
    return rows.groupBy("chain", "connection", *_CHANNEL_KEY).agg(
        sf.min("ts_ns").alias("first_ns"),
        sf.max("ts_ns").alias("last_ns"),
        sf.max(is_life.cast("int")).alias("lives"),
        *(each.alias(name) for name, each in sums.items()),
    )


def _closes(events: DataFrame, kind: str) -> DataFrame:
    closed = events.where((sf.col("type") == kind) & (sf.col("outcome") == "closed"))
    close = sf.struct(sf.col("ts_ns").alias("closed_ns"), "by", "code", "text", "method", "seq")
    first = closed.groupBy("chain", *_CHANNEL_KEY).agg(sf.min_by(close, "seq").alias("close"))
    return first.select("chain", *_CHANNEL_KEY, "close.*")


def _merged(parts: Sequence[DataFrame], key: tuple[str, ...], values: tuple[str, ...]) -> DataFrame:
    """What is known of each, from all that is known of it; what comes first counts."""
    names = ("chain", "connection", *key, *_TIMES, "is_written", "prefetch", "prefetch_seq", *_COUNTS, *values)
    rows = reduce(DataFrame.unionAll, [as_open(each, names) for each in parts])
    return rows.groupBy(*key).agg(
        sf.max("chain").alias("chain"),
        sf.max("connection").alias("connection"),
        sf.min("first_ns").alias("first_ns"),
        sf.min("opened_ns").alias("opened_ns"),
        sf.max("last_ns").alias("last_ns"),
        sf.coalesce(sf.max("is_written"), sf.lit(False)).alias("is_written"),
        *(sf.first(name, ignorenulls=True).alias(name) for name in values),
        *(sf.coalesce(sf.sum(name), sf.lit(0)).alias(name) for name in _COUNTS),
        sf.max_by("prefetch", "prefetch_seq").alias("prefetch"),
        sf.max("prefetch_seq").alias("prefetch_seq"),
    )


def _connections(events: DataFrame, counts: DataFrame, carried: DataFrame) -> DataFrame:
    counted = counts.groupBy("chain", "connection", "connection_id").agg(
        sf.min("first_ns").alias("first_ns"),
        sf.max("last_ns").alias("last_ns"),
        *(sf.sum(f"all_{name}").alias(name) for name in _COUNTS),
    )
    opened = events.where((sf.col("type") == "connection") & (sf.col("outcome") == "opened")).select(
        "chain", "connection", "connection_id", sf.col("ts_ns").alias("opened_ns"), *_HANDSHAKE
    )
    closed = _closes(events, "connection").drop("channel", "epoch", "seq")
    known = carried.where(sf.col("type") == CONNECTION)
    return _merged([counted, opened, closed, known], ("connection_id",), (*_HANDSHAKE, *_CLOSE))


def _channels(events: DataFrame, counts: DataFrame, carried: DataFrame) -> DataFrame:
    counted = counts.where((sf.col("channel") > 0) & (sf.col("lives") > 0))
    of_channel = sf.col("channel") > 0
    opened = events.where(of_channel & (sf.col("type") == "channel") & (sf.col("outcome") == "opened")).select(
        "chain", "connection", *_CHANNEL_KEY, sf.col("ts_ns").alias("opened_ns")
    )
    closed = _closes(events, "channel").drop("seq")
    methods = events.where((sf.col("type") == "request") & sf.col("method").isin(*_MODES, "basic.qos"))
    prefetch = sf.get_json_object("arguments", "$.prefetch_count").cast("int")
    is_qos = sf.col("method") == "basic.qos"
    modes = sf.create_map(*(sf.lit(each) for pair in _MODES.items() for each in pair))
    asked = methods.where(of_channel & (sf.col("outcome") != "unanswered")).select(
        *("chain", "connection", *_CHANNEL_KEY),
        modes[sf.col("method")].alias("mode"),
        sf.when(is_qos, prefetch).alias("prefetch"),
        sf.when(is_qos, sf.col("seq")).alias("prefetch_seq"),
    )
    known = carried.where(sf.col("type") == CHANNEL)
    return _merged([counted, opened, closed, asked, known], _CHANNEL_KEY, (*_CLOSE, "mode"))


_MODES = {"confirm.select": "confirm", "tx.select": "tx"}
