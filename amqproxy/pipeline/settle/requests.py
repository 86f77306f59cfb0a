"""Synchronous methods, with their replies."""

from __future__ import annotations

from pyspark.sql import DataFrame

from amqproxy.pipeline.schema import REQUESTS
from amqproxy.pipeline.settle.batch import Batch
from amqproxy.pipeline.settle.lives import WHO_FOUND

_SENT_NS = "(e.ts_ns - coalesce(e.latency_ns, 0L))"
_GIVEN = {
    **{name: f"w.`{name}`" for name in WHO_FOUND},
    "ts_ns": _SENT_NS,
    "time": f"timestamp_micros({_SENT_NS} DIV 1000)",
    "latency_ns": "CASE WHEN e.outcome = 'answered' THEN e.latency_ns END",
}
_REQUESTS = f"""
    SELECT {{hint}} {", ".join(f"{_GIVEN.get(name, f'e.`{name}`')} AS `{name}`" for name in REQUESTS.fieldNames())}
    FROM {{events}} e LEFT JOIN {{who}} w ON w.connection_id = e.connection_id
    WHERE e.type = 'request'
"""


def requests(batch: Batch, who: DataFrame) -> DataFrame:
    """Return a row for each request of a batch, by the time of sending: `schema.REQUESTS`."""
    return batch.sql(_REQUESTS, who=who)
