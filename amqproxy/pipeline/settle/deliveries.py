"""Deliveries, with their outcomes and the publishes that they came from."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from amqproxy.pipeline.schema import DELIVERIES
from amqproxy.pipeline.settle.batch import Batch
from amqproxy.pipeline.settle.journeys import CONTENT_COLUMNS, CONTENT_KEY, REFERENCE, Journeys
from amqproxy.pipeline.settle.settlements import columns, is_given_up, latency_ns, same, settlements

_FROM_EVENTS = (
    *("chain", "connection_id", "stream", "connection", "leg", "file", "ts_ns", "time", "seq", "channel", "epoch"),
    *("type", "sender", "number", "delivery_tag", "consumer_tag", "awaits", "exchange", "routing_key", "queue"),
    *("redelivered", "size", "message_id", "headers", "properties", "digest", "body", "verdict", "rules", "tags"),
)
_LINKED = ("redelivery_count", *REFERENCE)

_REDELIVERY_COUNT = """coalesce(
    CASE WHEN contains(headers, '"x-delivery-count"')
        THEN try_cast(get_json_object(headers, '$.x-delivery-count') AS BIGINT) END,
    CASE WHEN contains(headers, '"x-death"')
        THEN aggregate(
            transform(
                from_json(get_json_object(headers, '$.x-death'), 'array<struct<count: bigint>>'), each -> each.count
            ),
            0L, (total, deaths) -> total + deaths
        ) END,
    CASE WHEN redelivered THEN greatest(coalesce(redelivery_count, 1L), 1L) ELSE 0L END
)"""
"""Number of earlier deliveries: from the broker's headers, else as seen."""

_STAMP = "outcome AS stamp, settled_ns AS stamped_ns, requeue AS stamped_requeue"
_STAMPED = "stamp, stamped_ns, stamped_requeue"

_OF_CONTENT = tuple(name for name in CONTENT_COLUMNS if name not in _FROM_EVENTS)
"""Columns that only the content's key needs."""

_DELIVERED = (
    f"SELECT {columns((*_FROM_EVENTS, *_OF_CONTENT))}, {_STAMP} FROM {{events}} WHERE type IN ('deliver', 'get')"
)

_BY_PLACE = f"""
    SELECT {{hint}} {columns(_FROM_EVENTS, "e")}, {_STAMPED}, {_REDELIVERY_COUNT} AS redelivery_count,
        {columns(REFERENCE)}
    FROM ({_DELIVERED}) e
    LEFT JOIN {{links}} r ON {same("e", "r")} AND e.seq - r.link_seq = 0
"""
"""Each linked by its place among equal contents."""

_IN_TIME = "e.ts_ns - o.published_ns BETWEEN 0 AND {window_ns}"

_WITH_CONTENT = f"""
    SELECT {{by_content}} * FROM (
        SELECT /*+ BROADCAST(w) */ e.*, coalesce({CONTENT_KEY}, xxhash64(e.connection_id, e.seq)) AS content_key
        FROM ({_DELIVERED}) e LEFT JOIN {{who}} w ON w.connection_id = e.connection_id
    )
"""
"""Deliveries without recognisable content are spread over partitions."""

_BY_CONTENT = f"""
    SELECT /*+ SHUFFLE_HASH(o) */ {columns(_FROM_EVENTS, "e")}, {_STAMPED},
        {_REDELIVERY_COUNT.replace("redelivery_count", "NULL")} AS redelivery_count,
        {", ".join(f"CASE WHEN {_IN_TIME} THEN o.{name} END AS {name}" for name in REFERENCE)}
    FROM ({_WITH_CONTENT}) e LEFT JOIN {{once}} o ON o.content_key = e.content_key
"""
"""Each linked by its unique content."""

_BY_BOTH = f"""
    SELECT /*+ SHUFFLE_HASH(o), BROADCAST(r) */ {columns(_FROM_EVENTS, "e")}, {_STAMPED},
        {_REDELIVERY_COUNT} AS redelivery_count,
        {", ".join(f"coalesce(CASE WHEN {_IN_TIME} THEN o.{name} END, r.{name}) AS {name}" for name in REFERENCE)}
    FROM ({_WITH_CONTENT}) e LEFT JOIN {{once}} o ON o.content_key = e.content_key
    LEFT JOIN {{links}} r ON {same("e", "r")} AND e.seq - r.link_seq = 0
"""
"""Each linked by its content if that is unique, else by its place."""

_ROWS = f"""
    SELECT {{hint}} {columns((*_FROM_EVENTS, *_LINKED), "d")}, w.`user`, w.client, w.virtual_host, w.horizon_ns, stamp,
        coalesce(d.stamp, s.settlement) AS settlement, coalesce(d.stamped_ns, s.settled_ns) AS settled_ns,
        CASE WHEN d.stamp IS NULL THEN s.settled_requeue ELSE d.stamped_requeue END AS settled_requeue
    FROM (
        SELECT {columns((*_FROM_EVENTS, *_LINKED))}, {_STAMPED} FROM {{linked}}
        UNION ALL
        SELECT {columns((*_FROM_EVENTS, *_LINKED))}, {_STAMP} FROM {{carried}} WHERE type IN ('deliver', 'get')
    ) d
    LEFT JOIN {{who}} w ON w.connection_id = d.connection_id
    LEFT JOIN ({settlements("deliveries-settled")}) s ON {same("d", "s")} AND s.of_ns - d.ts_ns = 0
"""
"""The key columns alone are keys of the joins, so that one exchange of the wide rows serves both."""

_SETTLED = {
    "kind": "type",
    "requeue": "settled_requeue",
    "latency_ns": latency_ns(),
    "transit_ns": "ts_ns - published_ns",
}


class Deliveries:
    """The deliveries of a batch, and earlier ones that were open. `few` and `age_ns` are as for `Publishes`."""

    def __init__(self, batch: Batch, who: DataFrame, journeys: Journeys, *, few: bool, age_ns: int | None) -> None:
        self._batch = batch
        once = journeys.published_once()
        if once is None:
            linked = batch.sql(_BY_PLACE, links=journeys.links())
        else:
            links: dict[str, Any] = {"links": journeys.links()} if journeys.has_alike else {}
            text = (_BY_BOTH if journeys.has_alike else _BY_CONTENT).replace("{by_content}", journeys.by_content)
            linked = batch.sql(text, who=who, once=once, window_ns=journeys.window_ns, **links)
        outcome = f"""
            SELECT *, CASE WHEN NOT awaits THEN coalesce(stamp, 'auto-acked')
                ELSE coalesce(settlement, CASE WHEN {is_given_up(age_ns)} THEN 'unknown' END) END AS outcome
            FROM ({_ROWS})
        """
        self._rows = batch.shared(
            batch.sql(outcome, few=few, who=who, linked=linked), is_cheap=few and once is not None
        )

    def settled(self) -> DataFrame:
        """Return a row for each delivery with a known outcome: `schema.DELIVERIES`."""
        found = ", ".join(f"{_SETTLED.get(name, f'`{name}`')} AS `{name}`" for name in DELIVERIES.fieldNames())
        return self._batch.sql(f"SELECT {found} FROM {{rows}} WHERE outcome IS NOT NULL", rows=self._rows)

    def open(self) -> DataFrame:
        """Return the open deliveries, with columns of `carry.OPEN`."""
        found = columns((*_FROM_EVENTS, *_LINKED))
        may_be = "stamp IS NULL AND coalesce(awaits, true)"  # so that few are exchanged
        return self._batch.sql(f"SELECT {found} FROM {{rows}} WHERE outcome IS NULL AND {may_be}", rows=self._rows)
