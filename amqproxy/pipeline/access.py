"""Client operations for access lists, from the table `events`: `rules suggest --tables`.

Spark counts operations by client and names; these few rows go through the generaliser of `rules suggest FILE…`, which
merges generated names, and omits each line that other lines cover.

The trace knows less than the frames in two cases: only lists from files contain the connection.open of a refused
client, and requests made just before a recording joined a connection in its middle.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

import msgspec
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicPublish, ConnectionOpen
from amqproxy.amqp091.properties import NO_PROPERTIES, Properties
from amqproxy.export.access_evidence import Evidence
from amqproxy.export.access_suggestion import DoneBy, SuggestedAccess, suggested_of
from amqproxy.pipeline.generated_names import alike, alike_in_json
from amqproxy.pipeline.recorded_methods import method_of, table_of
from amqproxy.rules.context import Client
from amqproxy.rules.matching.operations import COPIES, operations

_NAMED = ("basic.consume", "basic.get", "queue.purge", "queue.delete", "queue.bind", "queue.unbind")
"""Methods that are counted by their names only."""


def suggested_access(events: DataFrame) -> tuple[SuggestedAccess, list[DoneBy]]:
    """Return the smallest list under which all `events` would have passed, and its source; raise `TooManyClients`."""
    lasting = events.where("connection_id IS NOT NULL AND type <> 'state' AND type <> 'finding'")
    commands = list(_commands(lasting))
    return suggested_of(commands, lasting.select("connection_id").distinct().count()), commands


def _commands(events: DataFrame) -> Iterator[DoneBy]:
    """Yield the distinct operations of clients with their counts, in order of first occurrence."""
    who = events.where("type = 'connection' AND outcome = 'opened'").select(
        "connection_id", fn.col("user").alias("of_user"), fn.col("virtual_host").alias("of_virtual_host")
    )
    published = events.where("type = 'publish'").select(
        *_PLACE,
        fn.lit("basic.publish").alias("method"),
        alike(fn.coalesce("exchange", fn.lit(""))).alias("exchange"),
        fn.lit(None).cast("string").alias("queue"),
        alike(fn.coalesce("routing_key", fn.lit(""))).alias("routing_key"),
        _copies().alias("arguments"),
    )
    opened = events.where("type = 'connection' AND outcome = 'opened'").select(
        *_PLACE,
        fn.lit("connection.open").alias("method"),
        *(fn.lit(None).cast("string").alias(each) for each in ("exchange", "queue", "routing_key", "arguments")),
    )
    asked = published.unionByName(_requests(events)).unionByName(opened)
    known = asked.join(who.dropDuplicates(["connection_id"]), "connection_id", "left").withColumn(
        "from", fn.regexp_extract("connection", _ADDRESS, 1)
    )
    # A line for an address also allows what its users do; all other addresses are alike.
    unknown = known.where("of_user IS NULL").select(fn.col("from").alias("address")).distinct()
    placed = known.join(fn.broadcast(unknown), fn.col("from") == fn.col("address"), "left")
    counted = (
        placed.groupBy("of_user", "of_virtual_host", "address", *_WHAT)
        .agg(fn.count("*").alias("times"), fn.min(fn.struct(*_PLACE)).alias("first"))
        .orderBy("first", *_WHAT)
    )
    for row in counted.toLocalIterator():
        made = _made(row)
        if made is not None:
            yield made


_ADDRESS = "^(.*?):[0-9]+-"
_PLACE = ("ts_ns", "stream", "connection", "connection_id")
_WHAT = ("method", "exchange", "queue", "routing_key", "arguments")


def _copies() -> Column:
    """Return the headers with further routing keys, if a message has any."""
    found = {each: fn.get_json_object("headers", f"$.{each}") for each in COPIES}
    some = reduce(lambda one, other: one | other, (each.isNotNull() for each in found.values()))
    return fn.when(some, fn.to_json(fn.struct(*(alike(each).alias(name) for name, each in found.items()))))


def _requests(events: DataFrame) -> DataFrame:
    """Return the clients' requests, with the last declared queue of the channel in place of an empty name."""
    argument = fn.get_json_object("arguments", "$.queue")
    # Bindings of queues have a binding key there; 0-9-1 uses these names for bindings of exchanges.
    is_binding = fn.col("method").isin("exchange.bind", "exchange.unbind") & fn.col("routing_key").isNull()
    method = (
        fn.when(fn.col("method") == "message.subscribe", "basic.consume")
        .when(is_binding, fn.regexp_replace("method", "^exchange", "queue"))
        .otherwise(fn.col("method"))
    )
    key = fn.when(is_binding, fn.coalesce(fn.get_json_object("arguments", "$.binding_key"), fn.lit("")))
    is_asked = (
        "type = 'request' AND outcome <> 'kept' AND sender = 'client' AND method IS NOT NULL"
        " OR type = 'get' AND queue IS NOT NULL"
    )
    asked = events.where(is_asked).select(
        (fn.col("ts_ns") - fn.coalesce("latency_ns", fn.lit(0))).alias("ts_ns"),
        *_PLACE[1:],
        *("channel", "epoch", "seq", "arguments", "exchange"),
        fn.coalesce(key, fn.col("routing_key")).alias("routing_key"),
        fn.coalesce(method, fn.lit("basic.get")).alias("method"),
        fn.when(fn.col("type") == "get", fn.col("queue")).otherwise(argument).alias("queue"),
        fn.when(fn.col("method") == "queue.declare", fn.col("queue")).alias("declared"),
        (fn.col("arguments").isNotNull() | (fn.col("type") == "get")).alias("is_seen"),
    )
    channel = Window.partitionBy("connection_id", "channel", "epoch").orderBy("seq")
    before = channel.rowsBetween(Window.unboundedPreceding, -1)
    last = fn.last("declared", ignorenulls=True).over(before)
    is_left_out = (fn.coalesce("queue", fn.lit("")) == "") & (fn.col("method") != "queue.declare")
    # The reply to a request that was not captured tells only its method: this proves no operation.
    meant = asked.withColumn("last", fn.when(is_left_out, last)).where("is_seen")
    queue = fn.coalesce("last", "queue")
    has_no_key = fn.col("method").isin("queue.bind", "queue.unbind") & (fn.col("routing_key") == "")
    return meant.select(
        *_PLACE,
        "method",
        alike(fn.col("exchange")).alias("exchange"),
        alike(queue).alias("queue"),
        alike(fn.when(has_no_key & fn.col("last").isNotNull(), fn.col("last")).otherwise(fn.col("routing_key"))).alias(
            "routing_key"
        ),
        fn.when(~fn.col("method").isin(*_NAMED), alike_in_json(fn.col("arguments"))).alias("arguments"),
    )


def _made(row: Any) -> DoneBy | None:
    command = _command(row)
    if command is None:
        return None
    first = row["first"]
    client = Client.named(first["stream"], first["connection"])
    client = msgspec.structs.replace(client, user=row["of_user"] or "", vhost=row["of_virtual_host"] or "")
    evidence = Evidence(row["times"], first["ts_ns"], first["stream"], first["connection"])
    return DoneBy(client, command, operations(command), evidence)


def _command(row: Any) -> Command | None:
    """Return the command, reconstructed as far as access lists read it."""
    name = row["method"]
    if name == "basic.publish":
        publish = BasicPublish(exchange=row["exchange"], routing_key=row["routing_key"])
        copied = {key: _keys(value) for key, value in msgspec.json.decode(row["arguments"] or "{}").items()}
        return Command(1, publish, Properties(headers=table_of(copied)) if copied else NO_PROPERTIES)
    if name == "connection.open":
        return Command(0, ConnectionOpen(virtual_host=row["of_virtual_host"] or ""))
    method = method_of(name, row["arguments"])
    if method is None:
        return None
    changes = {each: row[each] for each in ("exchange", "queue", "routing_key") if row[each] is not None}
    known = {each: value for each, value in changes.items() if hasattr(method, each)}
    return Command(1, msgspec.structs.replace(method, **known) if known else method)


def _keys(value: Any) -> Any:
    """Return the routing keys in a header; Spark returns an array as JSON within JSON."""
    try:
        found = msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value
    return found if isinstance(found, list) else value
