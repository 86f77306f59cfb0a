"""Deliveries, each with what became of it, and the publish that it came from."""

from __future__ import annotations

from pyspark.sql import DataFrame

from amqproxy.pipeline.schema import DELIVERIES
from amqproxy.pipeline.settle.batch import Batch
from amqproxy.pipeline.settle.journeys import REFERENCE, Journeys
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
            from_json(get_json_object(headers, '$.x-death'), 'array<struct<count: bigint>>'),
            0L, (total, each) -> total + each.count
        ) END,
    CASE WHEN redelivered THEN greatest(coalesce(redelivery_count, 1L), 1L) ELSE 0L END
)"""
"""How often it was delivered before: as the broker says in its headers, else as it was seen."""

_ROWS = f"""
    SELECT {{hint}} {columns((*_FROM_EVENTS, *_LINKED), "d")}, w.`user`, w.client, w.virtual_host, w.horizon_ns,
        s.settlement, s.settled_ns, s.settled_requeue
    FROM (
        SELECT {{hint}} {columns(_FROM_EVENTS, "e")}, {_REDELIVERY_COUNT} AS redelivery_count, {columns(REFERENCE)}
        FROM (SELECT {columns(_FROM_EVENTS)} FROM {{events}} WHERE type IN ('deliver', 'get')) e
        LEFT JOIN {{links}} r ON {same("e", "r")} AND e.seq - r.link_seq = 0
        UNION ALL
        SELECT {columns((*_FROM_EVENTS, *_LINKED))} FROM {{carried}} WHERE type IN ('deliver', 'get')
    ) d
    LEFT JOIN {{who}} w ON w.connection_id = d.connection_id
    LEFT JOIN ({settlements("deliveries-settled")}) s ON {same("d", "s")} AND s.of_ns - d.ts_ns = 0
"""
"""Only the columns of the key are keys of the joins, so that one exchange of the wide rows serves both."""

_SETTLED = {
    "kind": "type",
    "requeue": "settled_requeue",
    "latency_ns": latency_ns(),
    "transit_ns": "ts_ns - published_ns",
}


class Deliveries:
    """The deliveries of a batch, and those before it that were open. `age_ns` is as for `Publishes`."""

    def __init__(self, batch: Batch, who: DataFrame, journeys: Journeys, *, age_ns: int | None) -> None:
        self._batch = batch
        outcome = f"""
            SELECT *, CASE WHEN NOT awaits THEN 'auto-acked'
                ELSE coalesce(settlement, CASE WHEN {is_given_up(age_ns)} THEN 'unknown' END) END AS outcome
            FROM ({_ROWS})
        """
        self._rows = batch.shared(batch.sql(outcome, who=who, links=journeys.links()))

    def settled(self) -> DataFrame:
        """A row for each of which it is known what became of it: `schema.DELIVERIES`."""
        found = ", ".join(f"{_SETTLED.get(name, f'`{name}`')} AS `{name}`" for name in DELIVERIES.fieldNames())
        return self._batch.sql(f"SELECT {found} FROM {{rows}} WHERE outcome IS NOT NULL", rows=self._rows)

    def open(self) -> DataFrame:
        """Those that are open, with columns of `carry.OPEN`."""
        found = columns((*_FROM_EVENTS, *_LINKED))
        return self._batch.sql(f"SELECT {found} FROM {{rows}} WHERE outcome IS NULL", rows=self._rows)
