"""Errors, and unreadable parts of captures."""

from __future__ import annotations

from pyspark.sql import DataFrame

from amqproxy.capture.decode import CAPTURE_ENDS, FORGOTTEN, PORTS_REUSED
from amqproxy.peer import SERVER
from amqproxy.pipeline.schema import ERRORS
from amqproxy.pipeline.settle.batch import Batch
from amqproxy.pipeline.settle.lives import WHO_FOUND

NORMAL_CODES = (0, 200)
"""Reply codes of a normal close: 200, and 0 as py-amqp and Kombu send it."""

_IS_ERROR = f"coalesce(code, 0) NOT IN {NORMAL_CODES}"

UNSEEN_ENDS = (CAPTURE_ENDS, FORGOTTEN, PORTS_REUSED)
"""Texts of connections whose end is not in the capture: a peer may have cut them or not."""

_KIND = f"""CASE
    WHEN type = 'channel' AND outcome = 'closed' AND {_IS_ERROR} THEN 'channel-closed'
    WHEN type = 'connection' AND outcome = 'closed' AND {_IS_ERROR} AND is_open = false AND `by` = '{SERVER}'
        THEN 'login-refused'
    WHEN type = 'connection' AND outcome = 'closed' AND {_IS_ERROR} THEN 'connection-closed'
    WHEN type = 'connection' AND outcome = 'closed' AND `by` IS NULL AND coalesce(is_open, true)
        AND text NOT IN {UNSEEN_ENDS} THEN 'connection-cut'
    WHEN type = 'connection' AND outcome = 'closed' AND `by` IS NULL AND is_open = false AND text LIKE '{SERVER} %'
        THEN 'login-cut'
    WHEN type = 'return' THEN 'returned'
    WHEN type IN ('publishes-settled', 'deliveries-settled') AND is_unknown_tag THEN 'unknown-tag'
    WHEN type = 'publishes-settled' AND outcome = 'nacked' THEN 'nacked'
    WHEN type IN ('publish', 'deliver', 'get') AND verdict = 'refused' THEN 'refused'
    WHEN type = 'lost' THEN 'lost'
END"""

_MAY_BE_ERROR = """(
    type IN ('channel', 'connection', 'return', 'lost') OR is_unknown_tag = true OR outcome = 'nacked'
    OR verdict = 'refused'
)"""
"""Simple conditions, so that Parquet readers fetch only pages with such rows."""

_COUNT = "aggregate(spans, 0L, (total, each) -> total + each.last - each.first + 1L)"

_GIVEN = {
    **{name: f"w.`{name}`" for name in WHO_FOUND},
    "kind": "e.error",
    "text": f"""coalesce(text, CASE WHEN NOT endswith(type, '-settled') THEN NULL
        WHEN is_unknown_tag THEN concat_ws(' ', 'unknown tag', tag)
        ELSE concat({_COUNT}, ' publishes') END)""",
    "method": """coalesce(method, CASE WHEN endswith(type, '-settled') THEN CASE outcome
        WHEN 'confirmed' THEN 'basic.ack' WHEN 'acked' THEN 'basic.ack'
        WHEN 'nacked' THEN 'basic.nack' WHEN 'rejected' THEN 'basic.reject' END END)""",
}
_ERRORS = f"""
    SELECT {{hint}} {", ".join(f"{_GIVEN.get(name, f'e.`{name}`')} AS `{name}`" for name in ERRORS.fieldNames())}
    FROM (SELECT *, {_KIND} AS error FROM {{events}} WHERE {_MAY_BE_ERROR}) e
    LEFT JOIN {{who}} w ON w.connection_id = e.connection_id
    WHERE e.error IS NOT NULL
"""


def errors(batch: Batch, who: DataFrame) -> DataFrame:
    """Return a row for each error of a batch: `schema.ERRORS`; messages settled together are one row."""
    return batch.sql(_ERRORS, who=who)
