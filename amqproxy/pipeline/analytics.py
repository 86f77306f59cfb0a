"""Queries of the dashboard's Analytics screen; each question is one query of `reading`.

Counts come from `rollup_minute`, which is small. Latencies come from the messages and deliveries of the requested time,
since percentiles of minutes cannot be combined into those of an hour.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from amqproxy.pipeline.questions import QUESTIONS
from amqproxy.pipeline.questions.answer import rows_of_reader
from amqproxy.pipeline.questions.span import Span as AskedSpan
from amqproxy.pipeline.reading import Reader
from amqproxy.pipeline.span import HOUR, Span, Subject

TIME = pa.timestamp("us", "UTC")

COUNTS = (
    *("published", "published_bytes", "confirmed", "nacked_publishes", "returned"),
    *("delivered", "delivered_bytes", "acked", "nacked", "rejected", "redelivered", "errors"),
)
"""Counters of `rollup_minute`."""

_WHO = dict.fromkeys(("connection_id", "connection", "user", "client", "virtual_host"), pa.utf8())
_AT = {"ts_ns": pa.int64(), "time": TIME}
_CHANNEL = {"channel": pa.int32(), "epoch": pa.int32()}

ROLLUPS = pa.schema(
    {"time": TIME, "by": pa.utf8(), "name": pa.utf8(), "virtual_host": pa.utf8()} | dict.fromkeys(COUNTS, pa.int64())
)

MESSAGES = pa.schema(
    _WHO
    | _AT
    | _CHANNEL
    | dict.fromkeys(("number", "confirm_tag", "size", "latency_ns"), pa.int64())
    | dict.fromkeys(("exchange", "routing_key", "outcome", "route", "verdict", "expiration"), pa.utf8())
)

DELIVERIES = pa.schema(
    _WHO
    | _AT
    | dict.fromkeys(("size", "latency_ns", "transit_ns", "published_number"), pa.int64())
    | dict.fromkeys(("published_channel", "published_epoch"), pa.int32())
    | dict.fromkeys(("redelivered", "requeue"), pa.bool_())
    | dict.fromkeys(("exchange", "routing_key", "queue", "outcome", "published_connection_id"), pa.utf8())
)

REQUESTS = pa.schema(
    _WHO | _AT | dict.fromkeys(("method", "queue", "exchange", "routing_key", "outcome", "reply_arguments"), pa.utf8())
)

CONNECTIONS = pa.schema(
    _WHO
    | {"time": TIME}
    | dict.fromkeys(("opened_ns", "closed_ns", "latency_ns"), pa.int64())
    | dict.fromkeys(("product", "version"), pa.utf8())
)

ERRORS = pa.schema(
    _WHO | _AT | {"channel": pa.int32(), "code": pa.int32()} | dict.fromkeys(("kind", "text", "method"), pa.utf8())
)

FIELDS = pa.schema(
    _WHO | _AT | dict.fromkeys(("exchange", "queue", "path", "kind", "holds"), pa.utf8()) | {"count": pa.int64()}
)

FINDINGS = pa.schema(
    _WHO
    | {"ts_ns": pa.int64(), "channel": pa.int32(), "count": pa.int64()}
    | dict.fromkeys(("kind", "severity", "text", "why", "remedy"), pa.utf8())
)

ANOMALIES = pa.schema(
    {"time": TIME}
    | dict.fromkeys(("subject", "name", "virtual_host", "measure", "text", "evidence"), pa.utf8())
    | dict.fromkeys(("value", "expected", "deviation", "score"), pa.float64())
)

TABLES = {
    "rollup_minute": ROLLUPS,
    "messages": MESSAGES,
    "deliveries": DELIVERIES,
    "errors": ERRORS,
    "findings": FINDINGS,
    "anomalies": ANOMALIES,
}
"""Tables used, with the columns of each."""

ASKED = TABLES | {"requests": REQUESTS, "connections": CONNECTIONS, "fields": FIELDS}
"""Tables that the questions of `PANELS` read, with the columns of each."""


LATENCIES = ("confirm", "ack", "transit")
"""Latencies: publish to confirm, delivery to acknowledgement, publish to delivery."""

CAPACITY = ("published", "published_bytes", "delivered", "delivered_bytes")

_IN_TIME = "ts_ns >= $start_ns AND ts_ns < $end_ns"
_IN_MINUTES = "epoch_us(time) >= $start_ns // 1000 AND epoch_us(time) < $end_ns // 1000"
_IN_HOST = "($virtual_host IS NULL OR virtual_host = $virtual_host)"


class Analytics:
    """The questions of the Analytics screen. All methods raise `Unreadable`."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def span(self) -> tuple[int, int] | None:
        """Return the start and end of the data, in whole hours; `None` if there is none."""
        return self._reader.span(TABLES)

    def names(self) -> list[str]:
        """Return the names of the existing tables."""
        return self._reader.names()

    def traffic(self, span: Span) -> list[dict[str, Any]]:
        """Return the counters of each step that has data."""
        return self._ask(
            f"""
            SELECT (epoch_us(time) // $step * $step * 1000)::BIGINT AS ts_ns, {_sums(COUNTS)}
            FROM rollup_minute
            WHERE {_IN_MINUTES} AND "by" = $by AND ($name IS NULL OR name = $name) AND {_IN_HOST}
            GROUP BY ts_ns ORDER BY ts_ns
            """,
            span,
            step=span.step.ns // 1000,
            by=span.by,
            name=span.name,
        )

    def latencies(self, span: Span) -> list[dict[str, Any]]:
        """Return latency percentiles of each step in ns, or null: publish → confirm, deliver → acknowledgement, publish
        → delivery.

        They are computed by t-digest: exact for few values, close for many.
        """
        column = {Subject.ALL: None, Subject.CONNECTION: "connection"}.get(span.by, str(span.by))
        of_messages = "TRUE" if column is None else "FALSE" if column == "queue" else f"({_column(column)} = $name)"
        of_deliveries = "TRUE" if column is None else f"({_column(column)} = $name)"
        return self._ask(
            f"""
            WITH points AS (
                SELECT ts_ns, latency_ns AS confirm, NULL::BIGINT AS ack, NULL::BIGINT AS transit FROM messages
                WHERE {_IN_TIME} AND {_IN_HOST} AND ($name IS NULL OR {of_messages})
                    AND outcome IN ('confirmed', 'nacked')
                UNION ALL
                SELECT ts_ns, NULL, CASE WHEN outcome IN ('acked', 'nacked', 'rejected') THEN latency_ns END, transit_ns
                FROM deliveries WHERE {_IN_TIME} AND {_IN_HOST} AND ($name IS NULL OR {of_deliveries})
            )
            SELECT (ts_ns // $step * $step)::BIGINT AS ts_ns, {", ".join(_percentiles(each) for each in LATENCIES)}
            FROM points GROUP BY 1 ORDER BY 1
            """,
            span,
            step=span.step.ns,
            name=span.name,
        )

    def top(self, span: Span, limit: int) -> list[dict[str, Any]]:
        """Return the busiest exchanges, queues, users or connections, by `by`."""
        return self._ask(
            f"""
            SELECT name, virtual_host, {_sums(COUNTS)}
            FROM rollup_minute
            WHERE {_IN_MINUTES} AND "by" = $by AND {_IN_HOST}
            GROUP BY name, virtual_host
            ORDER BY sum(coalesce(published, 0) + coalesce(delivered, 0)) DESC, name, virtual_host LIMIT $limit
            """,
            span,
            by=span.by,
            limit=limit,
        )

    def clients(self, span: Span, limit: int) -> list[dict[str, Any]]:
        """Return the busiest clients, by connection name or, without one, by connection."""
        return self._ask(
            f"""
            WITH sent AS (
                SELECT coalesce(client, connection) AS name, "user", virtual_host, size, 1 AS published, 0 AS delivered
                FROM messages WHERE {_IN_TIME} AND {_IN_HOST}
                UNION ALL
                SELECT coalesce(client, connection), "user", virtual_host, size, 0, 1
                FROM deliveries WHERE {_IN_TIME} AND {_IN_HOST}
            )
            SELECT name, "user", virtual_host, sum(published)::BIGINT AS published, sum(delivered)::BIGINT AS delivered,
                coalesce(sum(size) FILTER (published = 1), 0)::BIGINT AS published_bytes,
                coalesce(sum(size) FILTER (delivered = 1), 0)::BIGINT AS delivered_bytes
            FROM sent GROUP BY name, "user", virtual_host
            ORDER BY sum(coalesce(published, 0) + coalesce(delivered, 0)) DESC, name, "user", virtual_host LIMIT $limit
            """,
            span,
            limit=limit,
        )

    def errors(self, span: Span, limit: int) -> list[dict[str, Any]]:
        """Return the errors by kind, code and method, with text and connection of the newest."""
        return self._ask(
            f"""
            SELECT kind, code, method, count(*)::BIGINT AS count, max(ts_ns) AS last_ns,
                count(DISTINCT connection_id)::BIGINT AS connections,
                left(arg_max(text, ts_ns), 1000) AS text, arg_max(connection, ts_ns) AS connection
            FROM errors WHERE {_IN_TIME} AND {_IN_HOST}
            GROUP BY kind, code, method ORDER BY count DESC, kind, code, method LIMIT $limit
            """,
            span,
            limit=limit,
        )

    def findings(self, span: Span, limit: int) -> list[dict[str, Any]]:
        """Return the kinds of findings, worst first, with the newest finding of each."""
        return self._ask(
            f"""
            WITH newest AS (
                SELECT kind, severity, connection_id, max("count") AS "count", max(ts_ns) AS ts_ns,
                    arg_max(connection, ts_ns) AS connection, arg_max(channel, ts_ns) AS channel,
                    arg_max(text, ts_ns) AS text, arg_max(why, ts_ns) AS why, arg_max(remedy, ts_ns) AS remedy
                FROM findings WHERE {_IN_TIME} AND {_IN_HOST}
                GROUP BY kind, severity, connection_id, channel
            )
            SELECT kind, severity, sum(coalesce("count", 1))::BIGINT AS count, max(ts_ns) AS last_ns,
                count(DISTINCT connection_id)::BIGINT AS connections, arg_max(connection, ts_ns) AS connection,
                arg_max(channel, ts_ns) AS channel, left(arg_max(text, ts_ns), 1000) AS text,
                arg_max(why, ts_ns) AS why, arg_max(remedy, ts_ns) AS remedy
            FROM newest GROUP BY kind, severity
            ORDER BY list_position(['info', 'warning', 'error'], severity) DESC, count DESC, kind LIMIT $limit
            """,
            span,
            limit=limit,
        )

    def anomalies(self, span: Span, limit: int) -> list[dict[str, Any]]:
        """Return the anomalies, strongest first."""
        return self._ask(
            f"""
            SELECT (epoch_us(time) * 1000)::BIGINT AS ts_ns, subject, name, virtual_host, measure,
                value, expected, deviation, score, left(text, 1000) AS text, left(evidence, 10000) AS evidence
            FROM anomalies
            WHERE epoch_us(time) >= $start_ns // {HOUR} * {HOUR // 1000} AND epoch_us(time) < $end_ns // 1000
                AND {_IN_HOST}
            ORDER BY score DESC, time DESC, subject, name LIMIT $limit
            """,
            span,
            limit=limit,
        )

    def capacity(self, span: Span, limit: int) -> list[dict[str, Any]]:
        """Return messages and bytes of each tenant: a virtual host, by user."""
        return self._ask(
            f"""
            SELECT virtual_host, name AS "user", {_sums(CAPACITY)}
            FROM rollup_minute
            WHERE {_IN_MINUTES} AND "by" = 'user' AND {_IN_HOST}
            GROUP BY virtual_host, name
            ORDER BY sum(coalesce(published_bytes, 0) + coalesce(delivered_bytes, 0)) DESC, virtual_host, name
            LIMIT $limit
            """,
            span,
            limit=limit,
        )

    def answer(self, name: str, span: Span, limit: int) -> list[dict[str, Any]]:
        """Return the rows of the answer to one of the questions in `PANELS`, compared with the time just before."""
        asked = AskedSpan(span.start_ns, span.end_ns, 2 * span.start_ns - span.end_ns)
        return rows_of_reader(self._reader, QUESTIONS[name], asked, ASKED, limit=limit, virtual_host=span.virtual_host)

    def _ask(self, text: str, span: Span, **parameters: Any) -> list[dict[str, Any]]:
        asked = {name: schema for name, schema in TABLES.items() if f"FROM {name}" in text}
        known = {"start_ns": span.start_ns, "end_ns": span.end_ns, "virtual_host": span.virtual_host}
        used = {name: value for name, value in (known | parameters).items() if f"${name}" in text}
        return self._reader.query(text, asked, used, span.start_ns, span.end_ns)


def _column(name: str) -> str:
    return f'"{name}"'


def _sums(columns: Iterable[str]) -> str:
    return ", ".join(f"coalesce(sum({each}), 0)::BIGINT AS {each}" for each in columns)


def _percentiles(name: str) -> str:
    shares = ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"))
    quantiles = ", ".join(f"approx_quantile({name}, {share})::BIGINT AS {name}_{label}" for share, label in shares)
    return f"count({name})::BIGINT AS {name}_count, {quantiles}, max({name}) AS {name}_max"
