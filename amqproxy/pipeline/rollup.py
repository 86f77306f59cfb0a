"""Counters per minute: by connection, exchange, queue and user, and in total.

The minute is that of the publish or the delivery, even if its outcome is known later: a minute with newly settled
messages is counted again from all rows in the tables, whichever batches they came in. A connection is added to the
existing counts of its minutes, an open one up to the end of its chain, where the next count continues.
Percentiles come from a histogram with `WIDTH`: at most 1 % off the exact
value, and independent of the division of rows; maxima are exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame

from amqproxy.pipeline.schema import ROLLUP_MINUTE

WIDTH = 1.02
"""Ratio of the bounds of a histogram range; its middle is within 1 % of both."""

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
MEASURES = ("confirm", "ack", "transit")

_COUNTS = (
    *("published", "published_bytes", "confirmed", "nacked_publishes", "returned"),
    *("delivered", "delivered_bytes", "acked", "nacked", "rejected", "redelivered", "open", "errors"),
)
_ATTRIBUTES = ("connection", "user", "virtual_host", "exchange", "queue")
_BY = ("connection", "exchange", "queue", "user")
"""Groupings of rows, besides the total."""


MAX_LIFE_DAYS = 366
"""Maximum number of days for which a connection is counted at once, since a time may be wrong by decades."""


class Replaced(NamedTuple):
    """Connections that were counted, and the gaps in their chains that were known then."""

    connections: DataFrame
    gaps: DataFrame | None


def rollup_minute(
    messages: DataFrame,
    deliveries: DataFrame,
    connections: DataFrame,
    errors: DataFrame,
    *,
    before: DataFrame | None = None,
    counted: DataFrame | None = None,
    gaps: DataFrame | None = None,
    replaced: Replaced | None = None,
) -> DataFrame:
    """Return a row for each minute and active connection, exchange, queue and user: `ROLLUP_MINUTE`.

    Rows without an exchange, queue or user count only for the other groupings. `before` are earlier counts of these
    minutes, from other rows: it has latencies only for minutes in which these rows have none. `counted` are earlier
    rows of `connections` that `before` counts. A connection does not count within the `gaps` of its chain, `from_ns` to
    `to_ns`, for which nothing was recorded. `replaced` are connections that `before` counts and that are no more, or
    are among `connections` with other times.
    """
    spark = messages.sparkSession
    spans = _spans(connections, counted, gaps, replaced)
    sums = spark.sql(_SUMS, messages=messages, deliveries=deliveries, spans=spans, errors=errors)
    rows = spark.sql(_WITH_PERCENTILES, sums=sums)
    return rows if before is None else spark.sql(_ADDED, rows=rows, before=before)


def without_contents(rows: DataFrame) -> DataFrame:
    """Keep only the open connections of `ROLLUP_MINUTE` rows; everything else is counted again."""
    return rows.sparkSession.sql(_OPEN_ALONE, rows=rows)


def hours_of(
    connections: DataFrame,
    counted: DataFrame | None = None,
    gaps: DataFrame | None = None,
    replaced: Replaced | None = None,
) -> DataFrame:
    """Return the hours whose counts change by these connections: `date`, `hour`."""
    return connections.sparkSession.sql(_HOURS, spans=_spans(connections, counted, gaps, replaced))


def _spans(
    connections: DataFrame, counted: DataFrame | None, gaps: DataFrame | None, replaced: Replaced | None
) -> DataFrame:
    """Return the minutes from `first_minute` to `last_minute` in which a connection counts `times`.

    That is once, or -1 times where it was `counted` before with another owner or beginning, or was `replaced`.
    """
    spark = connections.sparkSession
    now = spark.sql(_LIVES, connections=connections)
    if counted is None:
        spans = spark.sql(_FIRST_SPANS, now=now)
    else:
        spans = spark.sql(_MORE_SPANS, now=now, before=spark.sql(_LIVES, connections=counted))
    spans = _without_gaps(spans, gaps)
    if replaced is not None:
        gone = spark.sql(_GONE_SPANS, gone=spark.sql(_LIVES, connections=replaced.connections))
        spans = spans.select(*_OF_SPAN).unionByName(_without_gaps(gone, replaced.gaps).select(*_OF_SPAN))
    return spark.sql(_BOUNDED, spans=spans)


def _without_gaps(spans: DataFrame, gaps: DataFrame | None) -> DataFrame:
    spark = spans.sparkSession
    return spans if gaps is None else spark.sql(_WITHOUT_GAPS, spans=spans, gaps=spark.sql(_GAPS, gaps=gaps))


_NO_TEXT, _NO_LONG = "CAST(NULL AS STRING)", "CAST(NULL AS BIGINT)"


def _rows(table: str, minute: str, attributes: str, given: Mapping[str, str]) -> str:
    """Return rows with all attributes, counts and latencies; missing ones are null or 0."""
    columns = [f"{minute} AS minute"]
    columns += [f"{f'`{name}`' if name in attributes.split() else _NO_TEXT} AS `{name}`" for name in _ATTRIBUTES]
    columns += [f"CAST({given.get(name, '0')} AS BIGINT) AS {name}" for name in _COUNTS]
    columns += [f"{given.get(name, _NO_LONG)} AS {name}" for name in MEASURES]
    return f"SELECT {', '.join(columns)} FROM {{{table}}}"


_MINUTE = "date_trunc('minute', time)"

_LIVES = """
    SELECT chain, connection_id, connection, `user`, virtual_host, date_trunc('minute', time) AS first_minute,
        date_trunc('minute', greatest(time, coalesce(timestamp_micros(closed_ns DIV 1000), time))) AS last_minute
    FROM {connections} WHERE time IS NOT NULL
"""
"""A connection whose end is not known, or whose clock went backwards, counts in its first minute."""

_OF_LIFE = ("chain", "connection_id", "connection", "user", "virtual_host")
_LIFE = ", ".join(f"`{name}`" for name in _OF_LIFE)
_OF_SPAN = (*_OF_LIFE, "first_minute", "last_minute", "times")
_FIRST_SPANS = "SELECT *, 1L AS times FROM {now}"
_GONE_SPANS = "SELECT *, -1L AS times FROM {gone}"
_GOES_ON = " AND ".join(
    ("b.first_minute = n.first_minute", "b.last_minute <= n.last_minute", *(f"b.`{x}` <=> n.`{x}`" for x in _OF_LIFE))
)
_MORE_SPANS = f"""
    WITH matched AS (
        SELECT n.*, b.last_minute AS counted_minute, coalesce({_GOES_ON}, false) AS goes_on
        FROM {{now}} n LEFT JOIN {{before}} b ON b.connection_id = n.connection_id
    )
    SELECT {_LIFE}, CASE WHEN goes_on THEN counted_minute + interval 1 minute ELSE first_minute END AS first_minute,
        last_minute, 1L AS times
    FROM matched WHERE NOT goes_on OR counted_minute < last_minute
    UNION ALL
    SELECT {", ".join(f"b.`{name}`" for name in _OF_LIFE)}, b.first_minute, b.last_minute, -1L
    FROM {{before}} b JOIN (SELECT connection_id FROM matched WHERE NOT goes_on) o ON o.connection_id = b.connection_id
"""

_EDGES = "PARTITION BY s.connection_id, s.first_minute, s.times ORDER BY"
_IN = "g.chain = s.chain AND g.last_minute > s.first_minute AND g.first_minute < s.last_minute"
_WITHOUT_GAPS = f"""
    WITH edges AS (
        SELECT s.*, g.first_minute AS gap_first, g.last_minute AS gap_last
        FROM {{spans}} s JOIN {{gaps}} g ON {_IN}
        UNION ALL SELECT s.*, NULL, NULL FROM {{spans}} s
    )
    SELECT * FROM (
        SELECT {", ".join(f"s.`{name}`" for name in _OF_LIFE)}, s.times,
            coalesce(s.gap_last, s.first_minute) AS first_minute,
            coalesce(lead(s.gap_first) OVER ({_EDGES} s.gap_first NULLS FIRST), s.last_minute) AS last_minute
        FROM edges s
    ) WHERE first_minute <= last_minute
"""
"""The parts of spans before, between and after the gaps in them."""

_GAPS = """
    SELECT DISTINCT chain, date_trunc('minute', timestamp_micros(from_ns DIV 1000)) AS first_minute,
        date_trunc('minute', timestamp_micros(to_ns DIV 1000)) AS last_minute
    FROM {gaps}
"""

_BOUNDED = f"""
    SELECT {_LIFE}, times, last_minute,
        greatest(first_minute, last_minute - interval {MAX_LIFE_DAYS} days) AS first_minute
    FROM {{spans}}
"""

_HOURS = """
    SELECT to_date(start) AS date, hour(start) AS hour
    FROM (
        SELECT DISTINCT explode(
            sequence(date_trunc('hour', first_minute), date_trunc('hour', last_minute), interval 1 hour)
        ) AS start
        FROM {spans}
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
            "spans",
            "explode(sequence(first_minute, last_minute, interval 1 minute))",
            "connection user virtual_host",
            {"open": "times"},
        ),
        _rows("errors", _MINUTE, "connection user virtual_host", {"errors": "1"}),
    )
)


def _cell(latency: str) -> str:
    """Return a latency with its histogram range: number n is above `WIDTH`ⁿ⁻¹ up to `WIDTH`ⁿ; 0 up to 1 ns."""
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
"""Counts by minute, all attributes, and latency range: far fewer rows than messages."""

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
    """Return the middle of the range that reaches the quantile, limited by the maximum."""
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
    WHERE {" OR ".join(f"{name} > 0" for name in _COUNTS)}
"""

_RECOUNTED = dict.fromkeys(_LATENCIES, _NO_LONG) | {name: "0L" for name in _COUNTS if name != "open"}
_OPEN_ALONE = f"""
    SELECT {", ".join(f"{_RECOUNTED.get(name, f'`{name}`')} AS `{name}`" for name in ROLLUP_MINUTE.names)}
    FROM {{rows}} WHERE open > 0
"""
