"""Connections and channels, from start to end, with their traffic; and the owners of rows.

Facts about each are collected batch by batch. Each batch has a row for what is open, which replaces that of the batch
before; the row of the batch in which it has ended is the last. Traffic after its end, before the other peer has seen
that, is not counted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from amqproxy.capture.decode import CAPTURE_ENDS, FORGOTTEN
from amqproxy.peer import CLIENT, SERVER
from amqproxy.pipeline.client_property import CLIENT_NAME, client_property
from amqproxy.pipeline.schema import CHANNELS, CONNECTIONS
from amqproxy.pipeline.settle.batch import Batch
from amqproxy.pipeline.settle.carry import CHANNEL, CONNECTION, LINGER_NS
from amqproxy.pipeline.settle.settlements import columns, spans_left
from amqproxy.taps.findings.ends import MISSED
from amqproxy.taps.trace.events import PROXY

WHO_FOUND = ("user", "client", "virtual_host")
"""Columns of `Lives.who` that tables have."""

_HANDSHAKE = (
    *("user", "virtual_host", "mechanism", "client_properties", "server_properties"),
    *("channel_max", "frame_max", "heartbeat", "latency_ns"),
)
_CLOSE = ("closed_ns", "by", "code", "text", "method")
_COUNTS = ("published", "delivered", "bytes")

_HORIZONS = """
    SELECT chain, max(last_ns) AS horizon_ns, max(is_in_batch) AS is_in_batch
    FROM (
        SELECT chain, last_ns, true AS is_in_batch FROM {seen} UNION ALL SELECT chain, last_ns, false FROM {carried}
    )
    GROUP BY chain
"""
"""Latest time in each chain, and whether the batch has any of its events."""

# --- what passed

_SEEN = f"""
    SELECT *, min(end_seq) OVER (PARTITION BY connection_id) AS connection_end_seq
    FROM (
        SELECT chain, connection, connection_id, channel, epoch,
            max(protocol) AS protocol, min(ts_ns) AS first_ns, max(ts_ns) AS last_ns,
            max(CASE WHEN type IN (
                'publishes-settled', 'deliveries-settled', 'return', 'finding', 'field', 'lost', 'state')
                THEN 0 ELSE 1 END) AS lives,
            count_if(type = 'publish') AS published,
            count_if(type IN ('deliver', 'get')) AS delivered,
            sum(CASE WHEN type IN ('publish', 'deliver', 'get') THEN coalesce(size, 0L) ELSE 0L END) AS bytes,
            min(CASE WHEN type = 'channel' AND outcome = 'closed' THEN seq END) AS close_seq,
            min(CASE WHEN type = 'connection' AND outcome = 'closed' THEN seq END) AS end_seq,
            max(CASE WHEN type IN ('publish', 'deliver', 'get') THEN seq END) AS content_seq,
            count_if(type = 'return') AS returned,
            {spans_left("publishes-settled")} AS publishes_left, {spans_left("deliveries-settled")} AS deliveries_left
        FROM {{events}}
        GROUP BY chain, connection, connection_id, channel, epoch
    )
"""
"""Traffic of each channel (null for the connection's own), the event that ended it, and its connection."""

_IS_LATE = "content_seq > least(close_seq, connection_end_seq)"
"""Whether there was content after the end."""

_SIZES = f"""
    SELECT count_if({_IS_LATE}) AS late, count(*) AS lives,
        coalesce(sum(publishes_left + returned), 0L) AS publishes, coalesce(sum(deliveries_left), 0L) AS deliveries
    FROM {{seen}}
"""

_BEFORE_END = "(l.connection_end_seq IS NULL OR e.seq < l.connection_end_seq)"
_BEFORE_CLOSE = f"({_BEFORE_END} AND (l.close_seq IS NULL OR e.seq < l.close_seq))"
_COUNTED = """
    count_if(e.type = 'publish' AND {before}) AS {all}published,
    count_if(e.type <> 'publish' AND {before}) AS {all}delivered,
    sum(CASE WHEN {before} THEN coalesce(e.size, 0L) ELSE 0L END) AS {all}bytes
"""
_WITHOUT_LATE = f"""
    SELECT chain, connection, protocol, t.connection_id, t.channel, t.epoch, first_ns, last_ns, lives, end_seq,
        {", ".join(f"coalesce(c.{name}, t.{name}) AS {name}" for name in _COUNTS)},
        {", ".join(f"coalesce(c.all_{name}, t.{name}) AS all_{name}" for name in _COUNTS)}
    FROM {{seen}} t LEFT JOIN (
        SELECT e.connection_id, e.channel, e.epoch,
            {_COUNTED.format(before=_BEFORE_CLOSE, all="")}, {_COUNTED.format(before=_BEFORE_END, all="all_")}
        FROM {{events}} e JOIN (SELECT * FROM {{seen}} WHERE {_IS_LATE}) l
            ON e.connection_id = l.connection_id AND e.channel = l.channel AND e.epoch = l.epoch
        WHERE e.type IN ('publish', 'deliver', 'get')
        GROUP BY e.connection_id, e.channel, e.epoch
    ) c ON c.connection_id = t.connection_id AND c.channel = t.channel AND c.epoch = t.epoch
"""
"""Like `_SEEN`, without the traffic after the end of the channel or connection."""

_ALL_IN_TIME = f"SELECT *, {', '.join(f'{name} AS all_{name}' for name in _COUNTS)} FROM {{seen}}"

# --- known facts

_CLOSED = f"struct({columns(_CLOSE)})"
_CLOSE_EVENT = """CASE WHEN outcome = 'closed' THEN
    named_struct('closed_ns', ts_ns, 'by', `by`, 'code', code, 'text', text, 'method', method) END"""
_NO_CLOSE = (
    "CAST(NULL AS STRUCT<closed_ns: BIGINT, `by`: STRING, code: INT, text: STRING, method: STRING>) AS close, "
    "NULL AS close_order"
)
_MERGED = f"""
    max(chain) AS chain, max(connection) AS connection,
    min(first_ns) AS first_ns, min(opened_ns) AS opened_ns, max(last_ns) AS last_ns,
    coalesce(max(is_written), false) AS is_written, min_by(close, close_order) AS close,
    {", ".join(f"coalesce(sum({name}), 0L) AS {name}" for name in _COUNTS)}
"""
_OUTLASTS = f"coalesce(f.close.`by` IS NULL AND f.close.text IN ('{CAPTURE_ENDS}', '{FORGOTTEN}'), false)"
"""Whether a connection was open when its capture, or its reading, ended."""

_CLOSED_BY = f"""coalesce(`by`, CASE
    WHEN text LIKE '%{MISSED}%' THEN '{PROXY}'
    WHEN text LIKE '{CLIENT} %' THEN '{CLIENT}'
    WHEN text LIKE '{SERVER} %' THEN '{SERVER}' END)"""
"""Peer that closed or cut a connection: the text of an end without connection.close begins with the peer."""

_KNOWS_CONSUMERS = """CASE
    WHEN type = 'lost' THEN false
    WHEN outcome = 'opened' THEN true
    WHEN outcome = 'joined' THEN coalesce(is_certain, false)
END"""
"""Whether all consumers of a connection are known after an event that decides it."""

_IS_NEW = "CASE WHEN outcome IN ('opened', 'joined') THEN true END"

_CONNECTIONS = f"""
    SELECT {{hint}} f.*, {columns(_CLOSE, "f.close")}, {_OUTLASTS} AS outlasts,
        s.horizon_ns, {CLIENT_NAME} AS client, {{is_over}} AS is_over
    FROM (
        SELECT connection_id, {_MERGED}, max(protocol) AS protocol, min(end_seq) AS end_seq,
            coalesce(max(is_new), true) AS is_new,
            coalesce(max_by(knows_consumers, known_seq), true) AS knows_consumers,
            {", ".join(f"first(`{name}`, true) AS `{name}`" for name in _HANDSHAKE)}
        FROM (
            SELECT chain, connection, connection_id, first_ns, NULL AS opened_ns, last_ns, NULL AS is_written,
                {_NO_CLOSE}, {", ".join(f"all_{name} AS {name}" for name in _COUNTS)}, protocol, end_seq,
                NULL AS is_new, NULL AS knows_consumers, NULL AS known_seq,
                {", ".join(f"NULL AS `{name}`" for name in _HANDSHAKE)}
            FROM {{counts}} WHERE connection_id IS NOT NULL
            UNION ALL
            SELECT chain, connection, connection_id, NULL, CASE WHEN outcome = 'opened' THEN ts_ns END, NULL, NULL,
                {_CLOSE_EVENT}, CASE WHEN outcome = 'closed' THEN seq END, NULL, NULL, NULL, NULL, NULL,
                {_IS_NEW}, {_KNOWS_CONSUMERS}, CASE WHEN outcome <> 'closed' THEN seq END,
                {columns(_HANDSHAKE)}
            FROM {{events}}
            WHERE type = 'connection' AND outcome IN ('opened', 'joined', 'closed')
                OR type = 'lost' AND connection_id IS NOT NULL
            UNION ALL
            SELECT chain, connection, connection_id, first_ns, opened_ns, last_ns, is_written,
                {_CLOSED}, CASE WHEN closed_ns IS NOT NULL THEN -1L END, published, delivered, bytes, protocol, NULL,
                false, knows_consumers, -1L, {columns(_HANDSHAKE)}
            FROM {{carried}} WHERE type = '{CONNECTION}'
        )
        GROUP BY connection_id
    ) f
    LEFT JOIN ({_HORIZONS}) s ON s.chain = f.chain {{over}}
"""

_OVER = {
    "{is_over}": "coalesce(o.chain IS NOT NULL AND NOT s.is_in_batch, false)",
    "{over}": "LEFT JOIN {over} o ON o.chain = f.chain",
}
_NONE_OVER = {"{is_over}": "false", "{over}": ""}

_IS_OF_CHANNEL = "(channel > 0 OR epoch > 0)"
"""Whether it is not the connection's own channel; a session may be on channel 0."""

_CHANNELS = f"""
    SELECT {{hint}} f.*, {columns(("by", "code", "text", "method"), "f.close")},
        coalesce(f.close.closed_ns, w.closed_ns) AS closed_ns, greatest(f.last_ns, w.last_ns) AS end_ns,
        w.`user`, w.client, w.virtual_host, w.horizon_ns, w.is_over
    FROM (
        SELECT connection_id, channel, epoch, {_MERGED}, first(mode, true) AS mode,
            first(session_name, true) AS session_name,
            max_by(prefetch, prefetch_seq) AS prefetch, max(prefetch_seq) AS prefetch_seq
        FROM (
            SELECT chain, connection, connection_id, channel, epoch, first_ns, NULL AS opened_ns, last_ns,
                NULL AS is_written, {_NO_CLOSE}, {columns(_COUNTS)}, NULL AS mode, NULL AS prefetch,
                NULL AS prefetch_seq, NULL AS session_name
            FROM {{counts}} WHERE {_IS_OF_CHANNEL} AND lives > 0
            UNION ALL
            SELECT chain, connection, connection_id, channel, epoch, NULL,
                CASE WHEN outcome = 'opened' THEN ts_ns END, NULL, NULL,
                {_CLOSE_EVENT}, CASE WHEN outcome = 'closed' THEN seq END, NULL, NULL, NULL,
                CASE method WHEN 'confirm.select' THEN 'confirm' WHEN 'tx.select' THEN 'tx'
                    WHEN 'dtx.select' THEN 'dtx' END,
                CASE WHEN method = 'basic.qos' THEN try_cast(get_json_object(arguments, '$.prefetch_count') AS INT) END,
                CASE WHEN method = 'basic.qos' THEN seq END, session_name
            FROM {{events}}
            WHERE {_IS_OF_CHANNEL} AND (
                type = 'channel' AND outcome IN ('opened', 'closed')
                OR type = 'request' AND method IN ('confirm.select', 'tx.select', 'dtx.select', 'basic.qos')
                    AND outcome <> 'unanswered'
            )
            UNION ALL
            SELECT chain, connection, connection_id, channel, epoch, first_ns, opened_ns, last_ns, is_written,
                {_CLOSED}, CASE WHEN closed_ns IS NOT NULL THEN -1L END, published, delivered, bytes,
                mode, prefetch, prefetch_seq, session_name
            FROM {{carried}} WHERE type = '{CHANNEL}'
        )
        GROUP BY connection_id, channel, epoch
    ) f
    LEFT JOIN {{connections}} w ON w.connection_id = f.connection_id
"""

# --- the tables

_OPENED_NS = "coalesce(opened_ns, first_ns)"
_SETTLED = {
    "opened_ns": _OPENED_NS,
    "time": f"timestamp_micros({_OPENED_NS} DIV 1000)",
    "is_open": "closed_ns IS NULL OR outlasts",
    "closed_by": _CLOSED_BY,
    **{name: client_property(name) for name in ("product", "platform")},
    "version": client_property("version", "qpid.client_version"),
}
_SETTLED_CONNECTION = _SETTLED | {"closed_ns": "coalesce(closed_ns, horizon_ns)"}
"""An open connection is known to be open until the end of what its chain has."""

_FROM_CONNECTIONS = (
    *("chain", "connection_id", "connection", "protocol", "first_ns", "opened_ns", "last_ns"),
    *(*_COUNTS, *_HANDSHAKE, *_CLOSE, "knows_consumers"),
)
_FROM_CHANNELS = (
    *("chain", "connection_id", "connection", "channel", "epoch", "first_ns", "opened_ns", *_COUNTS, *_CLOSE),
    *("mode", "prefetch", "prefetch_seq", "session_name"),
)


class Sizes(NamedTuple):
    """Numbers of rows to be joined in a batch."""

    lives: int
    """Approximate number of channels."""
    publishes: int
    """Settled publishes, as spans, and returns."""
    deliveries: int
    """Settled deliveries, as spans."""


class Lives:
    """The connections and channels of a batch, and earlier ones that had not ended.

    Those of the last batch, and of chains `over` without any events in it, have ended even if no end was seen.
    """

    def __init__(self, batch: Batch, over: Collection[str] = ()) -> None:
        self._batch = batch
        seen = batch.kept(batch.sql(_SEEN))
        counted = batch.sql(_SIZES, seen=seen).first()
        assert counted is not None
        sizes = counted.asDict()
        has_late = sizes.pop("late") > 0  # rare: events are searched only if there are any
        self.sizes = Sizes(**sizes)
        counts = batch.sql(_WITHOUT_LATE if has_late else _ALL_IN_TIME, seen=seen)
        if has_late:
            counts = batch.kept(counts)
        text, tables = _CONNECTIONS, dict[str, Any](seen=seen, counts=counts)
        for place, part in (_OVER if over else _NONE_OVER).items():
            text = text.replace(place, part)
        if over:
            tables["over"] = batch.events.sparkSession.createDataFrame(pa.table({"chain": sorted(over)}))
        self._connections = batch.kept(batch.sql(text, **tables))
        self._channels = batch.sql(_CHANNELS, counts=counts, connections=self._connections)
        if not batch.is_last:
            self._channels = batch.kept(self._channels)
        found = columns(("connection_id", *WHO_FOUND, "end_seq"))
        self.who = batch.sql(
            f"SELECT {found}, CASE WHEN NOT is_over THEN horizon_ns END AS horizon_ns FROM {{connections}}",
            connections=self._connections,
        )
        """One row per connection: its owner, the event that closed it, if any, the end of its chain, null if that is
        over.
        """

    def connections(self) -> DataFrame:
        """Return a row for each ended connection: `schema.CONNECTIONS`."""
        return self._settled(self._connections, CONNECTIONS.fieldNames(), _SETTLED_CONNECTION)

    def channels(self) -> DataFrame:
        """Return a row for each ended channel: `schema.CHANNELS`."""
        return self._settled(self._channels, CHANNELS.fieldNames(), _SETTLED)

    def open_connections(self) -> DataFrame:
        """Return a row for each open connection, as `connections` does, with `is_new`: whether this batch has its
        beginning.
        """
        names = [*CONNECTIONS.fieldNames(), "is_new"]
        return self._settled(self._connections, names, _SETTLED_CONNECTION, has_ended=False)

    def open_channels(self) -> DataFrame:
        """Return a row for each open channel, as `channels` does."""
        return self._settled(self._channels, CHANNELS.fieldNames(), _SETTLED, has_ended=False)

    def open(self) -> list[DataFrame]:
        """Return the rows for the next batch, with columns of `carry.OPEN`."""
        return [
            self._open(self._connections, CONNECTION, columns(_FROM_CONNECTIONS)),
            self._open(self._channels, CHANNEL, f"{columns(_FROM_CHANNELS)}, end_ns AS last_ns"),
        ]

    def _settled(
        self, rows: DataFrame, names: list[str], given: Mapping[str, str], *, has_ended: bool = True
    ) -> DataFrame:
        found = ", ".join(f"{given.get(name, f'`{name}`')} AS `{name}`" for name in names)
        condition = f"NOT is_written AND {self._has_ended}" if has_ended else f"NOT {self._has_ended}"
        return self._batch.sql(f"SELECT {found} FROM {{rows}} WHERE {condition}", rows=rows)

    def _open(self, rows: DataFrame, kind: str, names: str) -> DataFrame:
        lingers = f"coalesce(horizon_ns - closed_ns <= {LINGER_NS}, false)"
        return self._batch.sql(
            f"""SELECT '{kind}' AS type, {self._has_ended} AS is_written, {names} FROM {{rows}}
                WHERE CASE WHEN {self._has_ended} THEN {lingers} ELSE true END""",
            rows=rows,
        )

    @property
    def _has_ended(self) -> str:
        return "true" if self._batch.is_last else "(closed_ns IS NOT NULL OR is_over)"
