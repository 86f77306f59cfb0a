"""Publishes, with their outcomes: route, confirm and transaction."""

from __future__ import annotations

from pyspark.sql import DataFrame

from amqproxy.pipeline.schema import MESSAGES
from amqproxy.pipeline.settle.batch import Batch
from amqproxy.pipeline.settle.carry import RETURN_NS
from amqproxy.pipeline.settle.settlements import columns, is_given_up, latency_ns, same, settlements

_FROM_EVENTS = (
    *("chain", "connection_id", "stream", "connection", "leg", "file", "ts_ns", "time", "seq", "channel", "epoch"),
    *("type", "sender", "number", "confirm_tag", "awaits", "exchange", "routing_key", "mandatory", "size"),
    *("content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to"),
    *("expiration", "message_id", "message_timestamp", "message_type", "user_id", "app_id", "cluster_id"),
    *("properties", "digest", "body", "code", "text", "verdict", "rules", "tags"),
)
"""Columns of a publish; a carried one has its return in `code` and `text`."""

_RETURNS = """
    SELECT connection_id, channel, epoch, number, code AS return_code, text AS return_text, ts_ns AS returned_ns,
        seq AS returned_seq
    FROM {events} WHERE type = 'return' AND number IS NOT NULL
"""

_MAY_BE_RETURNED = f"""(coalesce(p.awaits, false) OR (
    r.returned_ns - p.ts_ns <= {RETURN_NS} AND (w.end_seq IS NULL OR r.returned_seq < w.end_seq)
))"""
"""A return precedes the confirm; without confirms, it is in time and before the end of the connection."""

_STAMP = "outcome AS stamp, settled_ns AS stamped_ns"

_ROWS = f"""
    SELECT {{hint}} {columns(_FROM_EVENTS, "p")}, w.`user`, w.client, w.virtual_host, w.horizon_ns, w.end_seq,
        r.return_code, r.return_text, p.stamp,
        coalesce(p.stamp, s.settlement) AS settlement, coalesce(p.stamped_ns, s.settled_ns) AS settled_ns
    FROM (
        SELECT {columns(_FROM_EVENTS)}, {_STAMP} FROM {{events}} WHERE type = 'publish'
        UNION ALL SELECT {columns(_FROM_EVENTS)}, {_STAMP} FROM {{carried}} WHERE type = 'publish'
    ) p
    LEFT JOIN {{who}} w ON w.connection_id = p.connection_id
    LEFT JOIN ({_RETURNS}) r ON {same("p", "r")} AND {_MAY_BE_RETURNED}
    LEFT JOIN ({settlements("publishes-settled")}) s ON {same("p", "s")} AND s.of_ns - p.ts_ns = 0
"""
"""The key columns alone are keys of the joins, so that one exchange of the wide rows serves both."""

_WAITS_FOR_RETURN = f"""(
    coalesce(mandatory, false) AND return_code IS NULL AND end_seq IS NULL AND horizon_ns - ts_ns <= {RETURN_NS}
)"""

_SETTLED = {
    "route": "CASE WHEN return_code IS NOT NULL OR code IS NOT NULL THEN 'returned' END",
    "return_code": "coalesce(return_code, code)",
    "return_text": "coalesce(return_text, text)",
    "latency_ns": latency_ns(),
}


class Publishes:
    """The publishes of a batch, and earlier ones that were open.

    `few`: hardly any of them need to be joined with their outcomes. `age_ns`: publishes that have been open for longer,
    before the end of their chain, are given up; `None` for never.
    """

    def __init__(self, batch: Batch, who: DataFrame, *, few: bool, age_ns: int | None) -> None:
        self._batch = batch
        outcome = f"""
            SELECT *, CASE
                WHEN awaits THEN coalesce(settlement, CASE WHEN {is_given_up(age_ns)} THEN 'unknown' END)
                WHEN awaits IS NULL THEN 'unknown'
                WHEN NOT {_WAITS_FOR_RETURN} OR {is_given_up(age_ns)} THEN 'sent'
            END AS outcome
            FROM ({_ROWS})
        """
        self._rows = batch.shared(batch.sql(outcome, few=few, who=who), is_cheap=few)

    def settled(self) -> DataFrame:
        """Return a row for each publish with a known outcome: `schema.MESSAGES`."""
        found = ", ".join(f"{_SETTLED.get(name, f'`{name}`')} AS `{name}`" for name in MESSAGES.fieldNames())
        return self._batch.sql(f"SELECT {found} FROM {{rows}} WHERE outcome IS NOT NULL", rows=self._rows)

    def open(self) -> DataFrame:
        """Return the open publishes, with columns of `carry.OPEN`."""
        as_returned = {"code": _SETTLED["return_code"], "text": _SETTLED["return_text"]}
        found = ", ".join(f"{as_returned.get(name, f'`{name}`')} AS `{name}`" for name in _FROM_EVENTS)
        may_be = "(stamp IS NULL OR NOT awaits)"  # pushed down to the files
        return self._batch.sql(f"SELECT {found} FROM {{rows}} WHERE outcome IS NULL AND {may_be}", rows=self._rows)
