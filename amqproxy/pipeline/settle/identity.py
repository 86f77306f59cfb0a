"""Who rows are of, from the connections' own events; and how far each chain has been read."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from amqproxy.pipeline.settle.carry import CONNECTION

WHO = ("chain", "connection_id", "connection", "user", "client", "virtual_host")
"""The columns by which a row of each table says who it is of."""


def horizons(events: DataFrame, carried: DataFrame) -> DataFrame:
    """For each chain, the latest time in it: `chain`, `horizon_ns`."""
    rows = events.select("chain", "ts_ns").unionAll(carried.select("chain", sf.col("last_ns").alias("ts_ns")))
    return rows.groupBy("chain").agg(sf.max("ts_ns").alias("horizon_ns"))


def identities(events: DataFrame, carried: DataFrame, horizon: DataFrame) -> DataFrame:
    """A row for each connection: who it is, and as `end_seq` the event that closed it, if there is one.

    `horizon_ns` is the latest time in its chain.
    """
    columns = ("chain", "connection_id", "user", "virtual_host", "client_properties")
    opened = events.where((sf.col("type") == "connection") & sf.col("outcome").isin("opened", "joined", "closed"))
    known = carried.where(sf.col("type") == CONNECTION)
    no_end = sf.lit(None).cast("long").alias("end_seq")
    found = opened.select(*columns, sf.when(sf.col("outcome") == "closed", sf.col("seq")).alias("end_seq")).unionAll(
        known.select(*columns, no_end)
    )
    named = found.groupBy("chain", "connection_id").agg(
        sf.max("user").alias("user"),
        sf.max("virtual_host").alias("virtual_host"),
        sf.max("client_properties").alias("client_properties"),
        sf.min("end_seq").alias("end_seq"),
    )
    return named.join(sf.broadcast(horizon), "chain", "left").select(
        "connection_id", "user", client_name().alias("client"), "virtual_host", "end_seq", "horizon_ns"
    )


def client_name() -> Column:
    """The name that a client gave itself: its connection_name, else its product."""
    properties = sf.col("client_properties")
    return sf.coalesce(sf.get_json_object(properties, "$.connection_name"), sf.get_json_object(properties, "$.product"))


def with_who(rows: DataFrame, who: DataFrame) -> DataFrame:
    """Rows of events, with who they are of."""
    known = who.select("connection_id", "user", "client", "virtual_host")
    others = rows.drop("user", "client", "virtual_host")
    return others.join(sf.broadcast(known), "connection_id", "left")
