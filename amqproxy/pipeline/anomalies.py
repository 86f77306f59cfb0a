"""Anomalies: hourly values far from those at the same hour of earlier days, ranked, each with a question about it.

    messages, deliveries, connections, errors → `hourly` ─────────┐
    events → `recorded_minutes` → `recorded_hours` ───────────────┴─▶ `anomalies`

`anomaly_history` keeps the measures of hours that have no new rows.

What is measured, an hour: messages (rate), latency, errors, opened connections (churn), and clients and routes that
were never seen before (new). What is expected is the median of the same hour of the day, by the local clock, on earlier
days of the same kind: working days, or weekends. How far off a value is goes by the median absolute deviation (MAD),
and never by less than chance explains: counts are compared by their square roots (Anscombe's transform: the counts of
independent events have one variance then), latencies by their logarithms. Nor is it less than the tail of all hours of
the subject says: what comes in bursts has high values by chance. With few earlier days the bound is wider,
and with fewer than `least_days` nothing is judged.

No recording is not a rate of zero: hours that were not recorded are neither judged nor a baseline, and what was counted
in an hour of which only a part was recorded is extrapolated.

Medians over at most some dozens of values a subject need no model: Spark ML has nothing here to fit.
"""

from __future__ import annotations

import msgspec
from pyspark.sql import DataFrame

from amqproxy.pipeline.generated_names import pattern
from amqproxy.pipeline.schema import ANOMALIES

MAD_TO_SIGMA = 1.4826
"""Factor from the MAD of a normal distribution to its standard deviation."""

RELATIVE = 0.1
"""Relative day-to-day variation that counts as chance."""

TRUSTED = 1.5
"""Factor by which the MAD of few days may differ from that of all hours of the subject, at most."""

TAIL, TAIL_TO_SIGMA = 0.98, 2.054
"""Quantile of the deviations of all hours of a subject, and the corresponding standard deviations of a normal
distribution: bursty traffic has a wider spread than its MAD suggests.
"""

DAY = 86_400
HOUR = 3_600
MINUTE = 60

SUBJECT = ("subject", "name", "virtual_host")

COUNTED = {
    "rate": ("exchange", "queue", "client", "route"),
    "errors": ("exchange", "queue", "client"),
    "churn": ("client",),
}
"""Measures that are counts, by subject: a missing row means zero."""

NEW = ("client", "route")


class AnomalySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the search: `zone` is the time zone of the traffic, such as Europe/Berlin."""

    zone: str = "UTC"
    days: int = 28
    """Length of the baseline in days."""
    least_days: int = 3
    """Minimum number of recorded earlier days of the same kind; with fewer, an hour is not judged."""
    least_recorded: int = 600
    """Minimum number of recorded seconds for an hour to be used."""
    least: int = 10
    """Minimum difference of counts, and minimum number of messages an hour of a subject."""
    least_measured: int = 20
    """Minimum number of latencies in an hour for a median."""
    score: float = 5.0
    """Minimum deviation of an anomaly, in standard deviations."""

    @property
    def history_days(self) -> int:
        """Number of days before the first hour that are needed: the baseline, and the earlier baselines of its
        hours.
        """
        return 2 * self.days + 1


USUAL = AnomalySettings()


_MINUTE_NS = MINUTE * 1_000_000_000

_RECORDED_MINUTES = f"""
    SELECT timestamp_seconds(minute DIV 60 * {HOUR}) AS hour_start,
        bit_or(shiftleft(1L, CAST(minute % 60 AS INT))) AS minutes
    FROM (
        SELECT explode(sequence(first, last)) AS minute
        FROM (
            SELECT min(ts_ns) DIV {_MINUTE_NS} AS first, max(ts_ns) DIV {_MINUTE_NS} AS last
            FROM {{events}} WHERE ts_ns IS NOT NULL GROUP BY chain, file
        )
    )
    GROUP BY 1
"""


def recorded_minutes(events: DataFrame) -> DataFrame:
    """Return the recorded minutes: `hour_start`, and `minutes`, a bit for each. A minute counts if any file covers
    it.
    """
    return events.sparkSession.sql(_RECORDED_MINUTES, events=events)


def recorded_hours(minutes: DataFrame) -> DataFrame:
    """Return the recorded `seconds` of each hour, from the result of `recorded_minutes`."""
    return minutes.sparkSession.sql(
        f"SELECT hour_start, CAST(bit_count(minutes) AS BIGINT) * {MINUTE} AS seconds FROM {{minutes}}", minutes=minutes
    )


# --- measures

_NAMES = {
    "exchange": f"CASE WHEN exchange = '' THEN '(default)' ELSE {pattern('exchange')} END",
    "route": f"concat_ws(' → ', exchange, {pattern('routing_key')})",
    "queue": pattern("queue"),
    "client": f"concat_ws(' / ', `user`, {pattern('client')})",
}
"""Name of each subject in a row of messages, deliveries, connections or errors."""

_COUNT = "CAST(count(*) AS DOUBLE)"
_MEDIAN = "CAST(percentile_approx(latency_ns, 0.5) AS DOUBLE)"
_OF_QUEUE = "queue <> ''"


def _an_hour(measure: str, subject: str, rows: str, where: str = "true", value: str = _COUNT) -> str:
    return f"""
        SELECT date_trunc('hour', time) AS hour_start, '{subject}' AS subject, {_NAMES[subject]} AS name, virtual_host,
            {value} AS value, count(*) AS weight, '{measure}' AS measure
        FROM {{{rows}}} WHERE {where} GROUP BY 1, 2, 3, 4
    """


_HOURLY = " UNION ALL ".join(
    (
        _an_hour("rate", "exchange", "messages"),
        _an_hour("rate", "route", "messages"),
        _an_hour("rate", "client", "messages"),
        _an_hour("rate", "queue", "deliveries", _OF_QUEUE),
        _an_hour("errors", "exchange", "messages", "outcome = 'nacked' OR route = 'returned'"),
        _an_hour("errors", "queue", "deliveries", f"{_OF_QUEUE} AND outcome IN ('nacked', 'rejected')"),
        _an_hour("errors", "client", "errors"),
        _an_hour("churn", "client", "connections"),
        _an_hour("latency", "exchange", "messages", "outcome = 'confirmed' AND latency_ns IS NOT NULL", _MEDIAN),
        _an_hour(
            "latency", "queue", "deliveries", f"{_OF_QUEUE} AND outcome = 'acked' AND latency_ns IS NOT NULL", _MEDIAN
        ),
    )
)


def hourly(messages: DataFrame, deliveries: DataFrame, connections: DataFrame, errors: DataFrame) -> DataFrame:
    """Return the measures of each hour: `hour_start`, subject, name, virtual_host, `measure`, `value`, `weight`.

    The value of latency is a median in ns, of `weight` values; all others are counts. Generated names, or generated
    parts of them, are `*`.
    """
    return messages.sparkSession.sql(
        _HOURLY, messages=messages, deliveries=deliveries, connections=connections, errors=errors
    )


# --- anomalies


def anomalies(
    measured: DataFrame,
    recorded: DataFrame,
    *,
    start_ns: int | None = None,
    end_ns: int | None = None,
    settings: AnomalySettings = USUAL,
) -> DataFrame:
    """Return the anomalies of the hours from `start_ns` to `end_ns`; `measured` and `recorded` reach further back.

    They are rows of the table `anomalies`, strongest first. Hours more than `history_days` before `start_ns` are used
    only to determine the first occurrence of a subject.
    """
    begin_ns = None if start_ns is None else start_ns - settings.history_days * DAY * 1_000_000_000
    text = _ANOMALIES.format(
        measured="{measured}",
        recorded="{recorded}",
        is_used="true" if begin_ns is None else _since(begin_ns),
        is_found="true" if start_ns is None else _since(start_ns),
        is_over="false" if end_ns is None else _since(end_ns),
        earlier=f"RANGE BETWEEN {settings.days * DAY + HOUR} PRECEDING AND {2 * HOUR} PRECEDING",
        zone=settings.zone,
        least=settings.least,
        least_days=settings.least_days,
        least_measured=settings.least_measured,
        least_recorded=settings.least_recorded,
        least_score=f"{settings.score!r}D",
    )
    return measured.sparkSession.sql(text, measured=measured, recorded=recorded)


def _since(ns: int) -> str:
    return f"hour_start >= timestamp_micros({ns // 1000}L)"


def _median(array: str) -> str:
    last = f"(size({array}) - 1)"
    return f"(sort_array({array})[{last} DIV 2] + sort_array({array})[size({array}) DIV 2]) / 2"


def _mad(array: str, middle: str) -> str:
    return _median(f"transform({array}, each -> abs(each - {middle}))")


_SUBJECT = ", ".join(SUBJECT)
_MEASURES = f"{_SUBJECT}, measure, hour_start, seconds, value"
_CHANGES = f"{_SUBJECT}, measure, hour_start, value, expected, deviation, score, days"
_KINDS = ", ".join(f"('{measure}', '{subject}')" for measure, subjects in COUNTED.items() for subject in subjects)
_NEW = ", ".join(f"'{each}'" for each in NEW)

_COMPLETE = f"""
    subjects AS (
        SELECT {_SUBJECT}, min(hour_start) AS first FROM seen GROUP BY {_SUBJECT} HAVING max(value) >= {{least}}
    ),
    counted AS (
        SELECT s.*, k.measure FROM subjects s JOIN (VALUES {_KINDS}) k(measure, subject) ON k.subject = s.subject
    ),
    counts AS (
        SELECT {_SUBJECT}, measure, hour_start, sum(value) AS value
        FROM (
            SELECT /*+ BROADCAST(u) */ {_SUBJECT}, measure, hour_start, 0D AS value
            FROM counted CROSS JOIN used u WHERE hour_start >= first
            UNION ALL
            SELECT {_SUBJECT}, measure, hour_start, value FROM seen WHERE measure <> 'latency'
        )
        GROUP BY {_SUBJECT}, measure, hour_start
    ),
    complete AS (
        SELECT /*+ BROADCAST(u) */ {_SUBJECT}, measure, u.hour_start, seconds, value * {HOUR} / seconds AS value
        FROM counts c JOIN used u ON u.hour_start = c.hour_start
        UNION ALL
        SELECT /*+ BROADCAST(u) */ {_SUBJECT}, measure, u.hour_start, seconds, value
        FROM seen c JOIN used u ON u.hour_start = c.hour_start
        WHERE measure = 'latency' AND value > 0 AND weight >= {{least_measured}}
    )
"""
"""All comparable measures: counts as hourly rates, zero in recorded hours without rows; latencies unchanged."""

_CHANGED = f"""
    clock AS (
        SELECT *, unix_seconds(hour_start) AS at, hour(local) AS clock, dayofweek(local) IN (1, 7) AS is_weekend,
            CASE WHEN measure = 'latency' THEN ln(value) ELSE 2 * sqrt(value + 0.375D) END AS scaled
        FROM (SELECT *, from_utc_timestamp(hour_start, '{{zone}}') AS local FROM complete)
    ),
    known AS (
        SELECT *, collect_list(value) OVER earlier AS past, collect_list(scaled) OVER earlier AS past_scaled
        FROM clock
        WINDOW earlier AS (PARTITION BY {_SUBJECT}, measure, clock, is_weekend ORDER BY at {{earlier}})
    ),
    usual AS (
        SELECT *, size(past) AS days, {_median("past")} AS expected, {_median("past_scaled")} AS middle
        FROM known WHERE size(past) >= {{least_days}}
    ),
    based AS (
        SELECT *, {_mad("past", "expected")} AS deviation, {MAD_TO_SIGMA}D * {_mad("past_scaled", "middle")} AS own,
            scaled - middle AS off
        FROM usual
    ),
    spread AS (
        SELECT *, percentile_approx(own, 0.5) OVER alike AS common,
            percentile_approx(off, {TAIL}) OVER alike / {TAIL_TO_SIGMA}D AS above,
            percentile_approx(off, {1 - TAIL:.2f}) OVER alike / -{TAIL_TO_SIGMA}D AS below,
            CASE WHEN measure = 'latency' THEN {RELATIVE}D
                ELSE greatest(sqrt({HOUR} / seconds), middle * {RELATIVE}D / 2) END AS chance
        FROM based
        WINDOW alike AS (PARTITION BY {_SUBJECT}, measure)
    ),
    changed AS (
        SELECT *, off / (greatest(
            common / {TRUSTED}D, least(own, common * {TRUSTED}D), CASE WHEN off > 0 THEN above ELSE below END, chance
        ) * (1 + 2 / days)) AS score
        FROM spread
    )
"""
"""Measures with what is expected, by the same hour of earlier days; a day of 25 hours has the same hour twice."""

_FIRST = f"""
    first_seen AS (
        SELECT {_SUBJECT}, min(hour_start) AS hour_start, min_by(value, hour_start) AS value
        FROM seen WHERE subject IN ({_NEW}) AND measure = 'rate' GROUP BY {_SUBJECT}
    ),
    new AS (
        SELECT /*+ BROADCAST(b) */ {_SUBJECT}, 'new' AS measure, hour_start, value, 0D AS expected, 0D AS deviation,
            {{least_score}} + log1p(value) AS score, 0 AS days
        FROM first_seen CROSS JOIN (SELECT min(hour_start) AS begin FROM recorded) b
        WHERE unix_seconds(hour_start) - unix_seconds(begin) >= {{least_days}} * {DAY}
    )
"""
"""Clients and routes in the hour of their first occurrence, if enough was recorded before."""

# --- in words

_TEXT = """concat(subject, ' ', name, ': ', CASE measure
    WHEN 'new' THEN format_string('never seen before, %.0f messages in its first hour', value)
    WHEN 'latency' THEN format_string('median latency %.1f ms, usually %.1f ms', value / 1e6, expected / 1e6)
    WHEN 'rate' THEN format_string('%.0f messages an hour, usually %.0f at this hour', value, expected)
    WHEN 'churn' THEN format_string('%.0f connections opened an hour, usually %.0f at this hour', value, expected)
    ELSE format_string('%.0f errors an hour, usually %.0f at this hour', value, expected) END)"""

_QUESTION = """CASE
    WHEN measure = 'errors' THEN CASE subject WHEN 'exchange' THEN 'unroutable' WHEN 'queue' THEN 'redeliveries'
                                 ELSE 'errors' END
    WHEN measure = 'latency' THEN CASE subject WHEN 'exchange' THEN 'slow-confirms' ELSE 'slower-consumers' END
    WHEN measure = 'churn' THEN 'churn'
    WHEN subject IN ('exchange', 'route') THEN 'publishers'
    WHEN subject = 'queue' THEN 'queue-users'
    ELSE 'changes' END"""
_OPTIONS = """CASE
    WHEN instr(name, '*') > 0 THEN map()
    WHEN subject = 'queue' AND measure = 'rate' THEN map('queue', name)
    WHEN subject = 'exchange' AND measure IN ('rate', 'latency') THEN map('exchange', if(name = '(default)', '', name))
    WHEN subject = 'route' THEN map('exchange', split_part(name, ' → ', 1), 'routing_key', split_part(name, ' → ', 2))
    ELSE map() END"""
_EVIDENCE = f"""to_json(named_struct(
    'ask', {_QUESTION},
    'options', {_OPTIONS},
    'start', concat(date_format(hour_start, 'yyyy-MM-dd'), 'T', date_format(hour_start, 'HH:mm:ss'), 'Z'),
    'last', '1h',
    'days', days))"""

_PER_SECOND = f"CASE WHEN measure = 'rate' THEN 1 / {HOUR} ELSE 1D END"
_MADE = {
    "time": "hour_start",
    **{name: f"{name} * {_PER_SECOND}" for name in ("value", "expected", "deviation")},
    "text": _TEXT,
    "evidence": _EVIDENCE,
}
_COLUMNS = ", ".join(
    f"CAST({_MADE.get(each.name, f'`{each.name}`')} AS {each.dataType.simpleString()}) AS `{each.name}`"
    for each in ANOMALIES.fields
)

_ANOMALIES = f"""
    WITH seen AS (SELECT * FROM {{measured}} WHERE name IS NOT NULL),
    recorded AS (SELECT * FROM {{recorded}} WHERE seconds >= {{least_recorded}}),
    used AS (SELECT * FROM recorded WHERE {{is_used}}),
    {_COMPLETE}, {_CHANGED}, {_FIRST}
    SELECT {_COLUMNS}
    FROM (
        SELECT {_CHANGES} FROM changed
        WHERE abs(score) >= {{least_score}} AND (
            measure = 'latency' OR abs(value - expected) >= {{least}} AND (measure = 'rate' OR value > expected)
        )
        UNION ALL SELECT {_CHANGES} FROM new
    )
    WHERE {{is_found}} AND NOT ({{is_over}})
    ORDER BY abs(score) DESC, hour_start, {_SUBJECT}, measure
"""
