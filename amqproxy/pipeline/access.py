"""Client operations for access lists, from the table `events`: `rules suggest --tables`.

Operations are counted by client and names; these few rows go through the generaliser of `rules suggest FILE…`, which
merges generated names, and omits each line that other lines cover.

The trace knows less than the frames in two cases: only lists from files contain the connection.open of a refused
client, and requests made just before a recording joined a connection in its middle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicPublish, ConnectionOpen
from amqproxy.amqp091.properties import NO_PROPERTIES, Properties
from amqproxy.export.access_evidence import Evidence
from amqproxy.export.access_suggestion import DoneBy, SuggestedAccess, suggested_of
from amqproxy.pipeline.generated_names import alike, alike_in_json
from amqproxy.pipeline.recorded_methods import method_of, table_of
from amqproxy.rules.context import Client
from amqproxy.rules.matching.operations import COPIES, operations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NAMED = ("basic.consume", "basic.get", "queue.purge", "queue.delete", "queue.bind", "queue.unbind")
"""Methods that are counted by their names only."""


def suggested_access(events: DataFrame) -> tuple[SuggestedAccess, list[DoneBy]]:
    """Return the smallest list under which all `events` would have passed, and its source; raise `TooManyClients`."""
    spark = events.sparkSession
    commands = [made for row in spark.sql(_COUNTED, events=events).collect() if (made := _made(row)) is not None]
    ((connections,),) = spark.sql(_CONNECTIONS, events=events).collect()
    return suggested_of(commands, connections), commands


_LASTING = "connection_id IS NOT NULL AND type <> 'state' AND type <> 'finding'"
_CONNECTIONS = f"SELECT count(DISTINCT connection_id) AS connections FROM {{events}} WHERE {_LASTING}"

_PLACE = "ts_ns, stream, connection, connection_id"
_COPIES = {name: f"copy_{number}" for number, name in enumerate(COPIES)}
"""Columns of the headers with further routing keys."""
_WHAT = ", ".join(("method", "exchange", "queue", "routing_key", "arguments", *_COPIES.values()))

_PATHS = {f"get_json_object(headers, '$.{name}')": column for name, column in _COPIES.items()}
_ALIKE_COPIES = ", ".join(f"{alike(path)} AS {column}" for path, column in _PATHS.items())
_NO_TEXT = "CAST(NULL AS STRING)"
_NO_COPIES = ", ".join(f"{_NO_TEXT} AS {each}" for each in _COPIES.values())
_PUBLISHED = f"""
    SELECT {_PLACE}, 'basic.publish' AS method, {alike("coalesce(exchange, '')")} AS exchange, {_NO_TEXT} AS queue,
        {alike("coalesce(routing_key, '')")} AS routing_key, {_NO_TEXT} AS arguments,
        {_ALIKE_COPIES}
    FROM {{events}} WHERE {_LASTING} AND type = 'publish'
"""
_OPENED = f"""
    SELECT {_PLACE}, 'connection.open' AS method, {_NO_TEXT} AS exchange, {_NO_TEXT} AS queue,
        {_NO_TEXT} AS routing_key, {_NO_TEXT} AS arguments, {_NO_COPIES}
    FROM {{events}} WHERE {_LASTING} AND type = 'connection' AND outcome = 'opened'
"""

_IS_BINDING = "(method IN ('exchange.bind', 'exchange.unbind') AND routing_key IS NULL)"
"""Whether it is a binding of a queue: its key is an argument. 0-9-1 uses these names for bindings of exchanges."""
_ASKED = f"""
    SELECT ts_ns - coalesce(latency_ns, 0L) AS ts_ns, stream, connection, connection_id, channel, epoch, seq, arguments,
        exchange, CASE WHEN {_IS_BINDING} THEN coalesce(get_json_object(arguments, '$.binding_key'), '')
            ELSE routing_key END AS routing_key,
        CASE WHEN type = 'get' THEN 'basic.get' WHEN method = 'message.subscribe' THEN 'basic.consume'
            WHEN {_IS_BINDING} THEN replace(method, 'exchange', 'queue') ELSE method END AS method,
        CASE WHEN type = 'get' THEN queue ELSE get_json_object(arguments, '$.queue') END AS queue,
        CASE WHEN method = 'queue.declare' THEN queue END AS declared,
        arguments IS NOT NULL OR type = 'get' AS is_seen
    FROM {{events}} WHERE {_LASTING} AND (
        type = 'request' AND outcome <> 'kept' AND sender = 'client' AND method IS NOT NULL
        OR type = 'get' AND queue IS NOT NULL
    )
"""
_MEANT = f"""
    SELECT *, CASE WHEN coalesce(queue, '') = '' AND method <> 'queue.declare' THEN declared_before END AS meant
    FROM (
        SELECT *, last_value(declared) IGNORE NULLS OVER (
            PARTITION BY connection_id, channel, epoch ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS declared_before
        FROM ({_ASKED})
    ) WHERE is_seen
"""
"""Requests, with the last declared queue of the channel, which an empty name means.

The reply to a request that was not captured tells only its method: this proves no operation.
"""
_HAS_NO_KEY = "method IN ('queue.bind', 'queue.unbind') AND routing_key = '' AND meant IS NOT NULL"
_REQUESTED = f"""
    SELECT {_PLACE}, method, {alike("exchange")} AS exchange, {alike("coalesce(meant, queue)")} AS queue,
        {alike(f"CASE WHEN {_HAS_NO_KEY} THEN meant ELSE routing_key END")} AS routing_key,
        CASE WHEN method NOT IN ({", ".join(f"'{each}'" for each in _NAMED)}) THEN {alike_in_json("arguments")}
            END AS arguments, {_NO_COPIES}
    FROM ({_MEANT})
"""

_OWNERS = f"""
    SELECT connection_id, min(`user`) AS of_user, min(virtual_host) AS of_virtual_host
    FROM {{events}} WHERE {_LASTING} AND type = 'connection' AND outcome = 'opened' GROUP BY connection_id
"""
_COUNTED = f"""
    WITH known AS (
        SELECT a.*, w.of_user, w.of_virtual_host, regexp_extract(a.connection, '^(.*?):[0-9]+-', 1) AS address_of
        FROM ({_PUBLISHED} UNION ALL {_REQUESTED} UNION ALL {_OPENED}) a
        LEFT JOIN ({_OWNERS}) w ON w.connection_id = a.connection_id
    )
    SELECT of_user, of_virtual_host, u.address, {_WHAT}, count(*) AS times, min(struct({_PLACE})) AS first
    FROM known k
    LEFT JOIN (SELECT DISTINCT address_of AS address FROM known WHERE of_user IS NULL) u ON u.address = k.address_of
    GROUP BY of_user, of_virtual_host, u.address, {_WHAT}
    ORDER BY first, {_WHAT}
"""
"""The distinct operations of clients with their counts, in order of first occurrence.

A line for an address also allows what its users do; all other addresses are alike.
"""


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
        copied = {name: _keys(row[column]) for name, column in _COPIES.items() if row[column] is not None}
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
    """Return the routing keys in a header: a text, or an array as JSON."""
    try:
        found = msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value
    return found if isinstance(found, list) else value
