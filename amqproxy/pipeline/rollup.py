"""What happened in each minute: by connection, exchange, queue and user, and by all together.

A minute is that of the publish or the delivery, whenever it is known what became of it: so a minute of which more has
been settled is made anew from all that is in the tables, whatever batches that came in. A connection that has ended is
added to what had been counted of all its minutes. Percentiles are of a histogram with `WIDTH`: no more than 1 % beside
an exact one, and the same however the rows are divided; a longest is exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from pyspark.sql import DataFrame

from amqproxy.pipeline.schema import ROLLUP_MINUTE

WIDTH = 1.02
"""The bounds of each range of the histograms are so far apart: its middle is 1 % beside both."""

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
MEASURES = ("confirm", "ack", "transit")

_COUNTS = (
    *("published", "published_bytes", "confirmed", "nacked_publishes", "returned"),
    *("delivered", "delivered_bytes", "acked", "nacked", "rejected", "redelivered", "open", "errors"),
)
_ATTRIBUTES = ("connection", "user", "virtual_host", "exchange", "queue")
_BY = ("connection", "exchange", "queue", "user")
"""By which of them rows are gathered, besides by all together."""


MAX_LIFE_DAYS = 366
"""Days before its end from which a connection is counted: one of its times may be wrong by decades."""


def rollup_minute(
    messages: DataFrame,
    deliveries: DataFrame,
    connections: DataFrame,
    errors: DataFrame,
    *,
    before: DataFrame | None = None,
) -> DataFrame:
    """A row for each minute and connection, exchange, queue and user that something happened to: `ROLLUP_MINUTE`.

    What has no exchange, queue or user is only counted by the others. `before` is what had been counted of these
    minutes, of other rows than these: it has latencies only of minutes in which these have none.
    """
    spark = messages.sparkSession
    sums = spark.sql(_SUMS, messages=messages, deliveries=deliveries, connections=connections, errors=errors)
    rows = spark.sql(_WITH_PERCENTILES, sums=sums)
    return rows if before is None else spark.sql(_ADDED, rows=rows, before=before)


def without_contents(rows: DataFrame) -> DataFrame:
    """Of rows of `ROLLUP_MINUTE` only how many connections were open: all else is counted again."""
    return rows.sparkSession.sql(_OPEN_ALONE, rows=rows)


def hours_of(connections: DataFrame) -> DataFrame:
    """The hours in which connections were open: `date`, `hour`."""
    return connections.sparkSession.sql(_HOURS, connections=connections)


_NO_TEXT, _NO_LONG = "CAST(NULL AS STRING)", "CAST(NULL AS BIGINT)"


def _rows(table: str, minute: str, attributes: str, given: Mapping[str, str]) -> str:
    """Rows of a table with all attributes, counts and latencies; those that it does not give are null or 0."""
    columns = [f"{minute} AS minute"]
    columns += [f"{f'`{name}`' if name in attributes.split() else _NO_TEXT} AS `{name}`" for name in _ATTRIBUTES]
    columns += [f"CAST({given.get(name, '0')} AS BIGINT) AS {name}" for name in _COUNTS]
    columns += [f"{given.get(name, _NO_LONG)} AS {name}" for name in MEASURES]
    return f"SELECT {', '.join(columns)} FROM {{{table}}}"


_MINUTE = "date_trunc('minute', time)"

_END = "greatest(time, coalesce(timestamp_micros(closed_ns DIV 1000), time))"
_BEGIN = f"greatest(time, {_END} - interval {MAX_LIFE_DAYS} days)"
"""Of a connection that has not ended, or whose clock went backwards, its first minute is counted."""

_HOURS = f"""
    SELECT to_date(start) AS date, hour(start) AS hour
    FROM (
        SELECT DISTINCT explode(
            sequence(date_trunc('hour', {_BEGIN}), date_trunc('hour', {_END}), interval 1 hour)
        ) AS start
        FROM {{connections}}
    )
"""

_ALL = " UNION ALL ".join(
    (
        _rows(
            "messages",
            _MINUTE,
            "connection user virtual_host exchange",
            {
                "published": "1",
                "published_bytes": "coalesce(size, 0L)",
                "confirmed": "IF(outcome = 'confirmed', 1, 0)",
                "nacked_publishes": "IF(outcome = 'nacked', 1, 0)",
                "returned": "IF(route IS NOT NULL, 1, 0)",
                "confirm": "CASE WHEN outcome = 'confirmed' THEN latency_ns END",
            },
        ),
        _rows(
            "deliveries",
            _MINUTE,
            "connection user virtual_host exchange queue",
            {
                "delivered": "1",
                "delivered_bytes": "coalesce(size, 0L)",
                "acked": "IF(outcome = 'acked', 1, 0)",
                "nacked": "IF(outcome = 'nacked', 1, 0)",
                "rejected": "IF(outcome = 'rejected', 1, 0)",
                "redelivered": "IF(redelivered, 1, 0)",
                "ack": "CASE WHEN outcome = 'acked' THEN latency_ns END",
                "transit": "transit_ns",
            },
        ),
        _rows(
            "connections",
            f"explode(sequence(date_trunc('minute', {_BEGIN}), date_trunc('minute', {_END}), interval 1 minute))",
            "connection user virtual_host",
            {"open": "1"},
        ),
        _rows("errors", _MINUTE, "connection user virtual_host", {"errors": "1"}),
    )
)


def _cell(latency: str) -> str:
    """A latency with its range: number n is of those above `WIDTH`ⁿ⁻¹ up to `WIDTH`ⁿ; 0 up to 1 ns."""
    bucket = f"CAST(ceil(ln(CAST(greatest({latency}, 1L) AS DOUBLE)) / {math.log(WIDTH)!r}D) AS INT)"
    return (
        f"CASE WHEN {latency} IS NOT NULL THEN "
        f"named_struct('measure', '{latency}', 'bucket', {bucket}, 'value', {latency}) END"
    )


_NO_CELL = f"named_struct('measure', {_NO_TEXT}, 'bucket', CAST(NULL AS INT), 'value', {_NO_LONG})"
_KEY = f"minute, {', '.join(f'`{name}`' for name in _ATTRIBUTES)}"

_CELLS = f"""
    SELECT {_KEY}, cell.measure, cell.bucket,
        {", ".join(f"sum(CASE WHEN cell.measure IS NULL THEN {name} ELSE 0L END) AS {name}" for name in _COUNTS)},
        count(cell.value) AS count, max(cell.value) AS longest
    FROM (
        SELECT *, explode(filter(
            array({_NO_CELL}, {", ".join(map(_cell, MEASURES))}), each -> each IS NOT NULL
        )) AS cell
        FROM ({_ALL})
        WHERE minute IS NOT NULL
    )
    GROUP BY {_KEY}, cell.measure, cell.bucket
"""
"""Counts by minute, all attributes, and range of latency: far fewer rows than messages."""

_GATHERED = ", ".join(f"named_struct('by', '{name}', 'name', `{name}`)" for name in _BY)

_SUMS = f"""
    SELECT minute, gathered.`by`, gathered.name, virtual_host, measure, bucket,
        {", ".join(f"sum({name}) AS {name}" for name in (*_COUNTS, "count"))}, max(longest) AS longest
    FROM (
        SELECT *, explode(array({_GATHERED}, named_struct('by', 'all', 'name', {_NO_TEXT}))) AS gathered
        FROM ({_CELLS})
    )
    WHERE gathered.name IS NOT NULL OR gathered.`by` = 'all'
    GROUP BY minute, gathered.`by`, gathered.name, virtual_host, measure, bucket
"""


def _percentiles(measure: str) -> list[str]:
    """The middle of the range that is reached, which is as far beside each of its bounds; no more than the longest."""
    longest = f"max(CASE WHEN measure = '{measure}' THEN longest END)"
    found = []
    for name, quantile in QUANTILES.items():
        is_reached = f"measure = '{measure}' AND so_far >= ceil(`all` * {quantile}D)"
        bucket = f"CAST(min(CASE WHEN {is_reached} THEN bucket END) AS DOUBLE)"
        middle = f"CAST(round(pow({WIDTH}D, {bucket}) * {2 / (1 + WIDTH)!r}D) AS BIGINT)"
        found.append(f"least({middle}, {longest}) AS {measure}_{name}_ns")
    return [*found, f"{longest} AS {measure}_max_ns"]


_WITH_PERCENTILES = f"""
    SELECT {", ".join(f"`{name}`" for name in ROLLUP_MINUTE.names)}
    FROM (
        SELECT minute, minute AS time, `by`, name, virtual_host,
            {", ".join(f"sum({name}) AS {name}" for name in _COUNTS)},
            {", ".join(column for measure in MEASURES for column in _percentiles(measure))}
        FROM (
            SELECT *, sum(count) OVER (PARTITION BY minute, `by`, name, virtual_host, measure) AS `all`,
                sum(count) OVER (
                    PARTITION BY minute, `by`, name, virtual_host, measure ORDER BY bucket ROWS UNBOUNDED PRECEDING
                ) AS so_far
            FROM {{sums}}
        )
        GROUP BY minute, `by`, name, virtual_host
    )
"""

_NAMES = ", ".join(f"`{name}`" for name in ROLLUP_MINUTE.names)
_LATENCIES = tuple(name for name in ROLLUP_MINUTE.names if name.endswith("_ns"))

_ADDED = f"""
    SELECT {_NAMES}
    FROM (
        SELECT minute, minute AS time, `by`, name, virtual_host,
            {", ".join(f"sum({name}) AS {name}" for name in _COUNTS)},
            {", ".join(f"max({name}) AS {name}" for name in _LATENCIES)}
        FROM (SELECT {_NAMES} FROM {{rows}} UNION ALL SELECT {_NAMES} FROM {{before}})
        GROUP BY minute, `by`, name, virtual_host
    )
"""

_RECOUNTED = dict.fromkeys(_LATENCIES, _NO_LONG) | {name: "0L" for name in _COUNTS if name != "open"}
_OPEN_ALONE = f"""
    SELECT {", ".join(f"{_RECOUNTED.get(name, f'`{name}`')} AS `{name}`" for name in ROLLUP_MINUTE.names)}
    FROM {{rows}} WHERE open > 0
"""
