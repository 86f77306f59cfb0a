"""Publishes and deliveries of the tables by content: narrow rows, with the key that equal contents share.

Which contents are equal, and which publishes take part, is defined in `amqproxy.linking`.
"""

from __future__ import annotations

from amqproxy.linking.message_key import CONTENT_FIELDS, ID_FIELDS
from amqproxy.linking.taking_part import NOT_FORWARDED, NOT_TAKEN, RETURNED
from amqproxy.pipeline.span import HOUR

HOUR_OF_ROW = f"(ts_ns DIV {HOUR})"
"""The hour of a row, in hours since 1970."""

IDENTITY = ("connection_id", "channel", "epoch", "number", "ts_ns")
"""Columns that identify a publish or a delivery."""

REFERENCE = (
    *("published_chain", "published_connection_id", "published_channel", "published_epoch", "published_number"),
    *("published_ns", "published_among"),
)
"""Columns of a delivery that name its publish."""

_COLUMNS = {"type": "message_type"}
"""Columns of properties whose names differ."""


def _hash_of(fields: tuple[str, ...]) -> str:
    return f"xxhash64({', '.join(_COLUMNS.get(name, name) for name in fields)})"


_KEY = f"""CASE
    WHEN message_id <> '' THEN {_hash_of(ID_FIELDS)}
    WHEN digest IS NOT NULL THEN {_hash_of(CONTENT_FIELDS)}
END"""

_HAS_ID = "coalesce(message_id <> '', false)"


def _texts(values: frozenset[str]) -> str:
    return ", ".join(f"'{each}'" for each in sorted(values))


_TAKES_PART = f"""(
    route IS DISTINCT FROM '{RETURNED}' AND outcome NOT IN ({_texts(NOT_TAKEN)})
    AND coalesce(verdict NOT IN ({_texts(NOT_FORWARDED)}), true)
)"""
"""Whether a publish may have reached a queue."""

PUBLISHED = f"""
    SELECT {_KEY} AS content_key, {_HAS_ID} AS has_id, virtual_host, 0 AS rank, chain, {", ".join(IDENTITY)},
        {HOUR_OF_ROW} AS hour, CAST(NULL AS BIGINT) AS queue_key, 0L AS is_first, 0L AS seen,
        {
    ", ".join(
        f"CAST(NULL AS {kind}) AS {name}"
        for name, kind in zip(REFERENCE, ("STRING", "STRING", "INT", "INT", "BIGINT", "BIGINT", "BIGINT"), strict=True)
    )
}, CAST(NULL AS BIGINT) AS redelivery_count
    FROM {{messages}} WHERE {_TAKES_PART}
"""

DELIVERED = f"""
    SELECT {_KEY} AS content_key, {_HAS_ID} AS has_id, virtual_host, 1 AS rank, chain,
        connection_id, channel, epoch, delivery_tag AS number, ts_ns, {HOUR_OF_ROW} AS hour,
        xxhash64(virtual_host, coalesce(queue, concat_ws(' ', connection_id, channel, consumer_tag))) AS queue_key,
        CASE WHEN redelivered THEN 0L ELSE 1L END AS is_first, 1L AS seen,
        {", ".join(REFERENCE)}, redelivery_count
    FROM {{deliveries}} WHERE delivery_tag IS NOT NULL
"""
"""With the links that the tables have, to see which change."""

CONTENTS = f"SELECT * FROM ({PUBLISHED} UNION ALL {DELIVERED}) WHERE content_key IS NOT NULL"

AFFECTED = f"""
    SELECT DISTINCT content_key FROM (
        SELECT {_KEY} AS content_key FROM {{messages}} UNION ALL SELECT {_KEY} FROM {{deliveries}}
    ) WHERE content_key IS NOT NULL
"""
"""Contents of rows, also of publishes that take no part: in a chain that was read again, they may have before."""
