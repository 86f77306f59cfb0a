"""Deliveries, with their outcomes; `links` finds the publishes that they came from."""

from __future__ import annotations

from pyspark.sql import DataFrame

from amqproxy.pipeline.redelivery_count import redelivery_count
from amqproxy.pipeline.schema import DELIVERIES
from amqproxy.pipeline.settle.batch import Batch
from amqproxy.pipeline.settle.settlements import columns, is_given_up, latency_ns, same, settlements

_FROM_EVENTS = (
    *("chain", "connection_id", "stream", "connection", "leg", "file", "ts_ns", "time", "seq", "channel", "epoch"),
    *("type", "sender", "number", "delivery_tag", "consumer_tag", "awaits", "exchange", "routing_key", "queue"),
    *("redelivered", "size", "message_id", "correlation_id", "content_type", "content_encoding", "message_type"),
    *("app_id", "headers", "properties", "digest", "body", "verdict", "rules", "tags"),
)

_STAMP = "outcome AS stamp, settled_ns AS stamped_ns, requeue AS stamped_requeue"

_ROWS = f"""
    SELECT {{hint}} {columns(_FROM_EVENTS, "d")}, w.`user`, w.client, w.virtual_host, w.horizon_ns, stamp,
        coalesce(d.stamp, s.settlement) AS settlement, coalesce(d.stamped_ns, s.settled_ns) AS settled_ns,
        CASE WHEN d.stamp IS NULL THEN s.settled_requeue ELSE d.stamped_requeue END AS settled_requeue
    FROM (
        SELECT {columns(_FROM_EVENTS)}, {_STAMP} FROM {{events}} WHERE type IN ('deliver', 'get')
        UNION ALL SELECT {columns(_FROM_EVENTS)}, {_STAMP} FROM {{carried}} WHERE type IN ('deliver', 'get')
    ) d
    LEFT JOIN {{who}} w ON w.connection_id = d.connection_id
    LEFT JOIN ({settlements("deliveries-settled")}) s ON {same("d", "s")} AND s.of_ns - d.ts_ns = 0
"""
"""The key columns alone are keys of the joins, so that one exchange of the wide rows serves both."""

_SETTLED = {
    "kind": "type",
    "requeue": "settled_requeue",
    "latency_ns": latency_ns(),
    "redelivery_count": redelivery_count("NULL"),
    **{
        each.name: f"CAST(NULL AS {each.dataType.simpleString()})"
        for each in DELIVERIES.fields
        if each.name.startswith("published_") or each.name == "transit_ns"
    },
}


class Deliveries:
    """The deliveries of a batch, and earlier ones that were open. `few` and `age_ns` are as for `Publishes`."""

    def __init__(self, batch: Batch, who: DataFrame, *, few: bool, age_ns: int | None) -> None:
        self._batch = batch
        outcome = f"""
            SELECT *, CASE WHEN NOT awaits THEN coalesce(stamp, 'auto-acked')
                ELSE coalesce(settlement, CASE WHEN {is_given_up(age_ns)} THEN 'unknown' END) END AS outcome
            FROM ({_ROWS})
        """
        self._rows = batch.shared(batch.sql(outcome, few=few, who=who), is_cheap=few)

    def settled(self) -> DataFrame:
        """Return a row for each delivery with a known outcome: `schema.DELIVERIES`, without links."""
        found = ", ".join(f"{_SETTLED.get(name, f'`{name}`')} AS `{name}`" for name in DELIVERIES.fieldNames())
        return self._batch.sql(f"SELECT {found} FROM {{rows}} WHERE outcome IS NOT NULL", rows=self._rows)

    def open(self) -> DataFrame:
        """Return the open deliveries, with columns of `carry.OPEN`."""
        found = columns(_FROM_EVENTS)
        may_be = "stamp IS NULL AND coalesce(awaits, true)"  # so that few are exchanged
        return self._batch.sql(f"SELECT {found} FROM {{rows}} WHERE outcome IS NULL AND {may_be}", rows=self._rows)
