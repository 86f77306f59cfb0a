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

from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from amqproxy.pipeline.generated_names import pattern
from amqproxy.pipeline.schema import ANOMALIES

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def recorded_minutes(events: DataFrame) -> DataFrame:
    """Return the recorded minutes: `hour_start`, and `minutes`, a bit for each. A minute counts if any file covers
    it.
    """
    recorded = (
        events.where("ts_ns IS NOT NULL")
        .groupBy("chain", "file")
        .agg(fn.min("ts_ns").alias("first"), fn.max("ts_ns").alias("last"))
        .select(fn.explode(fn.sequence(_minute("first"), _minute("last"))).alias("minute"))
    )
    hour = fn.timestamp_seconds(fn.floor(fn.col("minute") / 60) * HOUR).alias("hour_start")
    found: DataFrame = recorded.groupBy(hour).agg(
        fn.expr("bit_or(shiftleft(1L, int(pmod(minute, 60))))").alias("minutes")
    )
    return found


def recorded_hours(minutes: DataFrame) -> DataFrame:
    """Return the recorded `seconds` of each hour, from the result of `recorded_minutes`."""
    return minutes.select("hour_start", (fn.bit_count("minutes") * MINUTE).alias("seconds"))


def _minute(column: str) -> Column:
    return fn.floor(fn.col(column) / (MINUTE * 1_000_000_000)).cast("long")


# --- measures


def hourly(messages: DataFrame, deliveries: DataFrame, connections: DataFrame, errors: DataFrame) -> DataFrame:
    """Return the measures of each hour: `hour_start`, subject, name, virtual_host, `measure`, `value`, `weight`.

    The value of latency is a median in ns, of `weight` values; all others are counts. Generated names, or generated
    parts of them, are `*`.
    """
    exchange = _named("exchange", fn.when(fn.col("exchange") == "", "(default)").otherwise(pattern(fn.col("exchange"))))
    route = _named("route", fn.concat_ws(" → ", fn.col("exchange"), pattern(fn.col("routing_key"))))
    queue = _named("queue", pattern(fn.col("queue")))
    client = _named("client", fn.concat_ws(" / ", "user", pattern(fn.col("client"))))
    refused = fn.expr("outcome = 'nacked' OR route = 'returned'")
    redone = fn.expr("outcome IN ('nacked', 'rejected')")
    known = deliveries.where("queue IS NOT NULL AND queue <> ''")
    return _union(
        [
            _counted(messages, "rate", exchange),
            _counted(messages, "rate", route),
            _counted(messages, "rate", client),
            _counted(known, "rate", queue),
            _counted(messages.where(refused), "errors", exchange),
            _counted(known.where(redone), "errors", queue),
            _counted(errors, "errors", client),
            _counted(connections, "churn", client),
            _latency(messages.where("outcome = 'confirmed'"), exchange),
            _latency(known.where("outcome = 'acked'"), queue),
        ]
    )


def _named(subject: str, name: Column) -> tuple[Column, Column, Column]:
    return fn.lit(subject).alias("subject"), name.alias("name"), fn.col("virtual_host")


def _counted(rows: DataFrame, measure: str, who: tuple[Column, ...]) -> DataFrame:
    value = fn.count("*").cast("double").alias("value")
    found: DataFrame = _an_hour(rows, who).agg(value, fn.count("*").alias("weight"))
    return found.withColumn("measure", fn.lit(measure))


def _latency(rows: DataFrame, who: tuple[Column, ...]) -> DataFrame:
    value = fn.percentile_approx("latency_ns", 0.5).cast("double").alias("value")
    timed = rows.where("latency_ns IS NOT NULL")
    found: DataFrame = _an_hour(timed, who).agg(value, fn.count("*").alias("weight"))
    return found.withColumn("measure", fn.lit("latency"))


def _an_hour(rows: DataFrame, who: tuple[Column, ...]) -> Any:
    return rows.groupBy(fn.date_trunc("hour", "time").alias("hour_start"), *who)


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    first, *others = frames
    for each in others:
        first = first.unionByName(each)
    return first


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
    used = recorded.where(fn.col("seconds") >= settings.least_recorded)
    seen = measured.where("name IS NOT NULL")
    new = _new(seen, used, settings)
    if start_ns is not None:
        used = used.where(_since(start_ns - settings.history_days * DAY * 1_000_000_000))
    found = _union([_changed(_complete(seen, used, settings), settings), new])
    if start_ns is not None:
        found = found.where(_since(start_ns))
    if end_ns is not None:
        found = found.where(~_since(end_ns))
    return found.select(*_columns()).orderBy(fn.abs("score").desc(), "hour_start", *SUBJECT, "measure")


def _since(ns: int) -> Column:
    return fn.expr(f"hour_start >= timestamp_micros({ns // 1000})")


def _complete(seen: DataFrame, used: DataFrame, settings: AnomalySettings) -> DataFrame:
    """Return all comparable measures: counts as hourly rates, zero in recorded hours without rows; latencies
    unchanged.
    """
    subjects = (
        seen.groupBy(*SUBJECT)
        .agg(fn.min("hour_start").alias("first"), fn.max("value").alias("most"))
        .where(fn.col("most") >= settings.least)
    )
    kinds = fn.create_map(*(fn.lit(each) for kind in COUNTED for each in (kind, " ".join(COUNTED[kind]))))
    counted = subjects.select(*SUBJECT, "first", fn.explode(kinds).alias("measure", "subjects")).where(
        "array_contains(split(subjects, ' '), subject)"
    )
    none = (
        counted.crossJoin(fn.broadcast(used))
        .where("hour_start >= first")
        .select(*SUBJECT, "measure", "hour_start", fn.lit(0.0).alias("value"))
    )
    some = seen.where(fn.col("measure").isin(*COUNTED)).select(*SUBJECT, "measure", "hour_start", "value")
    counts = (
        none.unionByName(some)
        .groupBy(*SUBJECT, "measure", "hour_start")
        .agg(fn.sum("value").alias("value"))
        .join(fn.broadcast(used), "hour_start")
        .withColumn("value", fn.col("value") * HOUR / fn.col("seconds"))
        .select(*SUBJECT, "measure", "hour_start", "seconds", "value")
    )
    latencies = (
        seen.where(f"measure = 'latency' AND value > 0 AND weight >= {settings.least_measured}")
        .join(fn.broadcast(used), "hour_start")
        .select(*SUBJECT, "measure", "hour_start", "seconds", "value")
    )
    return counts.unionByName(latencies)


def _changed(complete: DataFrame, settings: AnomalySettings) -> DataFrame:
    local = fn.from_utc_timestamp("hour_start", settings.zone)
    clock = (
        complete.withColumn("at", fn.unix_seconds("hour_start"))
        .withColumn("clock", fn.hour(local))
        .withColumn("is_weekend", fn.dayofweek(local).isin(1, 7))
        .withColumn(
            "scaled",
            fn.when(fn.col("measure") == "latency", fn.log("value")).otherwise(2 * fn.sqrt(fn.col("value") + 0.375)),
        )
    )
    earlier = (
        Window.partitionBy(*SUBJECT, "measure", "clock", "is_weekend")
        .orderBy("at")
        .rangeBetween(-settings.days * DAY - HOUR, -2 * HOUR)  # a day of 25 hours has the same hour twice
    )
    alike = Window.partitionBy(*SUBJECT, "measure")
    based = (
        clock.withColumn("past", fn.collect_list("value").over(earlier))
        .withColumn("past_scaled", fn.collect_list("scaled").over(earlier))
        .withColumn("days", fn.size("past"))
        .where(fn.col("days") >= settings.least_days)
        .withColumn("expected", _median("past"))
        .withColumn("deviation", _mad("past", "expected"))
        .withColumn("middle", _median("past_scaled"))
        .withColumn("own", MAD_TO_SIGMA * _mad("past_scaled", "middle"))
        .withColumn("off", fn.col("scaled") - fn.col("middle"))
        .withColumn("common", fn.percentile_approx("own", 0.5).over(alike))
        .withColumn("above", fn.percentile_approx("off", TAIL).over(alike) / TAIL_TO_SIGMA)
        .withColumn("below", fn.percentile_approx("off", 1 - TAIL).over(alike) / -TAIL_TO_SIGMA)
    )
    tail = fn.when(fn.col("off") > 0, fn.col("above")).otherwise(fn.col("below"))
    spread = fn.greatest(fn.col("common") / TRUSTED, fn.least("own", fn.col("common") * TRUSTED), tail)
    chance = fn.when(fn.col("measure") == "latency", fn.lit(RELATIVE)).otherwise(
        fn.greatest(fn.sqrt(HOUR / fn.col("seconds")), fn.col("middle") * RELATIVE / 2)
    )
    width = fn.greatest(spread, chance) * (1 + 2 / fn.col("days"))
    off = based.withColumn("score", fn.col("off") / width)
    matters = fn.expr(
        f"measure = 'latency' OR abs(value - expected) >= {settings.least} AND (measure = 'rate' OR value > expected)"
    )
    return off.where((fn.abs("score") >= settings.score) & matters).select(
        *SUBJECT, "measure", "hour_start", "value", "expected", "deviation", "score", "days"
    )


def _median(array: str) -> Column:
    return fn.expr(
        f"(sort_array({array})[int((size({array}) - 1) / 2)] + sort_array({array})[int(size({array}) / 2)]) / 2"
    )


def _mad(array: str, middle: str) -> Column:
    off = f"sort_array(transform({array}, each -> abs(each - {middle})))"
    return fn.expr(f"({off}[int((size({array}) - 1) / 2)] + {off}[int(size({array}) / 2)]) / 2")


def _new(seen: DataFrame, used: DataFrame, settings: AnomalySettings) -> DataFrame:
    """Return clients and routes in the hour of their first occurrence, if enough was recorded before."""
    first = (
        seen.where(fn.col("subject").isin(*NEW) & (fn.col("measure") == "rate"))
        .groupBy(*SUBJECT)
        .agg(fn.min("hour_start").alias("hour_start"), fn.min_by("value", "hour_start").alias("value"))
    )
    begin = used.agg(fn.min("hour_start").alias("begin"))
    return (
        first.crossJoin(fn.broadcast(begin))
        .where(f"unix_seconds(hour_start) - unix_seconds(begin) >= {settings.least_days * DAY}")
        .select(
            *SUBJECT,
            fn.lit("new").alias("measure"),
            "hour_start",
            "value",
            fn.lit(0.0).alias("expected"),
            fn.lit(0.0).alias("deviation"),
            (settings.score + fn.log1p("value")).alias("score"),
            fn.lit(0).alias("days"),
        )
    )


# --- in words


def _columns() -> list[Column]:
    per_second = fn.when(fn.col("measure") == "rate", 1 / HOUR).otherwise(1.0)
    made = {
        "time": fn.col("hour_start"),
        "value": fn.col("value") * per_second,
        "expected": fn.col("expected") * per_second,
        "deviation": fn.col("deviation") * per_second,
        "text": fn.expr(_TEXT),
        "evidence": fn.expr(_EVIDENCE),
    }
    return [
        made.get(field.name, fn.col(field.name)).cast(field.dataType).alias(field.name, metadata=field.metadata)
        for field in ANOMALIES.fields
    ]


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
    'start', date_format(hour_start, "yyyy-MM-dd'T'HH:mm:ss'Z'"),
    'last', '1h',
    'days', days))"""
