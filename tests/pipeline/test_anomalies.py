"""Months with planted anomalies: all are found, and few others; where nothing was recorded, nothing is found."""

from __future__ import annotations

import json
import math
import random
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from amqproxy.pipeline.anomalies import AnomalySettings, anomalies, hourly, recorded_hours, recorded_minutes
from amqproxy.pipeline.schema import ANOMALIES
from tests.pipeline.rows import SECOND, at, frame_of, row

pytestmark = [pytest.mark.once, pytest.mark.both_engines(usual=False)]

ZONE = ZoneInfo("Europe/Berlin")
BEGIN = datetime(2026, 10, 5, tzinfo=UTC)  # a Monday; on 2026-10-25 clocks are put back there
DAYS = 35

Key = tuple[str, str, str, datetime]
"""Subject, name, measure, and the hour."""


def hour(day: str, clock: int) -> datetime:
    """An hour by the local clock."""
    return datetime.fromisoformat(f"2026-{day}T{clock:02d}:00").replace(tzinfo=ZONE).astimezone(UTC)


class Planted(NamedTuple):
    """A change of place and time known: `value` of what it is measured by, or that many times as much."""

    subject: str
    name: str
    measure: str
    when: datetime
    times: float = 0.0
    value: float | None = None

    @property
    def key(self) -> Key:
        return self.subject, self.name, self.measure, self.when


PLANTED = (
    Planted("exchange", "orders", "rate", hour("10-08", 14), times=4),  # three days of history
    Planted("queue", "mail", "rate", hour("10-13", 11), times=0),
    Planted("queue", "mail", "rate", hour("10-13", 12), times=0),
    Planted("exchange", "audit", "rate", hour("10-20", 3), times=6),  # at night
    Planted("exchange", "orders", "latency", hour("10-21", 10), times=5),
    Planted("queue", "stock", "latency", hour("10-26", 9), times=4),  # the first working day of winter time
    Planted("exchange", "orders", "rate", hour("10-26", 8), times=3),
    Planted("client", "shop / web", "errors", hour("10-28", 16), value=60),
    Planted("client", "mailer / cron", "churn", hour("10-29", 20), value=150),
    Planted("exchange", "orders", "rate", hour("11-01", 13), times=4),  # a Sunday
    Planted("client", "intruder / nmap", "new", hour("10-30", 2), value=3),
    Planted("route", "orders → deleted", "new", hour("11-03", 15), value=40),
)
GONE = {hour("10-22", each) for each in range(5, 13)} | {hour("11-07", each) for each in range(24)}
"""Hours that were not recorded."""
PARTLY = {hour("10-27", 10): 1200}
"""Seconds of an hour of which only a part was recorded."""

RATES = {
    ("exchange", "orders"): 4000,
    ("exchange", "audit"): 900,
    ("exchange", "(default)"): 120,
    ("queue", "mail"): 700,
    ("queue", "stock"): 2500,
    ("client", "shop / web"): 3500,
    ("client", "mailer / cron"): 300,
    ("route", "orders → new"): 3000,
    ("route", "orders → paid"): 25,
}
LATENCIES = {("exchange", "orders"): 3e6, ("queue", "stock"): 40e6, ("queue", "mail"): 900e6}


def usual(moment: datetime) -> float:
    """How busy it is: by day, by the local clock, and less at weekends."""
    local = moment.astimezone(ZONE)
    daily = 0.15 + 0.85 * max(0.0, math.sin((local.hour - 5) / 16 * math.pi)) if 5 <= local.hour <= 21 else 0.15
    return daily * (0.3 if local.weekday() >= 5 else 1.0)


SEEDS = (4, 13, 20)
"""Each has a month of its own, in a virtual host of its own."""


def month(seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What was measured each hour, and what was recorded."""
    chance = random.Random(seed)
    measured: dict[Key, tuple[float, int]] = {}
    hours = [BEGIN + timedelta(hours=each) for each in range(24 * DAYS)]
    for when in hours:
        for (subject, name), base in RATES.items():
            count = base * usual(when) * math.exp(chance.gauss(0, 0.1))
            measured[subject, name, "rate", when] = (max(0, round(chance.gauss(count, math.sqrt(count)))), 1)
            if subject == "client":
                measured[subject, name, "errors", when] = (int(chance.expovariate(0.7)), 1)
                measured[subject, name, "churn", when] = (int(chance.expovariate(0.3)), 1)
        for (subject, name), base in LATENCIES.items():
            measured[subject, name, "latency", when] = (base * math.exp(chance.gauss(0, 0.15)), 200)
    for each in PLANTED:
        if each.value is None:
            value, weight = measured[each.key]
            measured[each.key] = (value * each.times, weight)
        else:
            measured[each.subject, each.name, "rate" if each.measure == "new" else each.measure, each.when] = (
                each.value,
                1,
            )
    rows = [
        {"hour_start": when, "subject": subject, "name": name, "virtual_host": str(seed), "measure": measure,
         "value": value if measure == "latency" else float(int(value * PARTLY.get(when, 3600) / 3600)),
         "weight": weight}
        for (subject, name, measure, when), (value, weight) in measured.items()
        if when not in GONE and value
    ]  # fmt: skip
    recorded = [{"hour_start": each, "seconds": PARTLY.get(each, 3600)} for each in hours if each not in GONE]
    return rows, recorded


def frames(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    months = [month(seed) for seed in SEEDS]
    measured, recorded = [row for rows, _ in months for row in rows], months[0][1]
    made = [
        spark.createDataFrame(pa.Table.from_pylist(each)).coalesce(1).localCheckpoint() for each in (measured, recorded)
    ]
    return made[0], made[1]


def test_months_with_planted_anomalies(spark: SparkSession) -> None:
    measured, recorded = frames(spark)
    found = anomalies(measured, recorded, settings=AnomalySettings(zone="Europe/Berlin"))
    arrow = found.toArrow()
    columns = to_arrow_schema(ANOMALIES, timezone="UTC")
    assert (arrow.schema.names, arrow.schema.types) == (columns.names, columns.types)
    rows = arrow.to_pylist()
    planted = {each.key for each in PLANTED}
    for seed in SEEDS:
        check_month([each for each in rows if each["virtual_host"] == str(seed)])
    # Of 36 planted ones 36 are found, and among some 42,000 judged values at most one other.
    false = [each["text"] for each in rows if key_of(each) not in planted]
    assert len(false) <= 1, false
    scores = [abs(each["score"]) for each in rows]
    assert scores == sorted(scores, reverse=True)


def key_of(row: dict[str, Any]) -> Key:
    return row["subject"], row["name"], row["measure"], row["hour_start"]


def check_month(rows: list[dict[str, Any]]) -> None:
    keys = {key_of(each): each for each in rows}
    assert [each.key for each in PLANTED if each.key not in keys] == [], "missed"
    assert not [each for each in rows if each["hour_start"] in GONE], "what was not recorded is no anomaly"
    gone = keys["queue", "mail", "rate", hour("10-13", 11)]
    assert gone["value"] == 0
    assert gone["text"].startswith("queue mail: 0 messages an hour, usually ")
    assert json.loads(gone["evidence"]) == {
        "ask": "queue-users", "options": {"queue": "mail"}, "start": "2026-10-13T09:00:00Z", "last": "1h", "days": 6,
    }  # fmt: skip
    new = keys["route", "orders → deleted", "new", hour("11-03", 15)]
    assert json.loads(new["evidence"])["options"] == {"exchange": "orders", "routing_key": "deleted"}


def test_hours_are_measured_from_the_tables(spark: SparkSession) -> None:
    who = {"user": "shop", "client": "web-4711000", "virtual_host": "/"}
    now = at("2026-11-02 10:05")
    made = {
        "messages": [
            *(row("messages", now + each, **who, exchange="", routing_key="q", outcome="confirmed", latency_ns=each)
              for each in (1, 2, 3)),
            row("messages", now, **who, exchange="x", routing_key="k.0123456789abcdef01", outcome="nacked"),
            row("messages", now + 3600 * SECOND, **who, exchange="x", routing_key="k", route="returned"),
        ],
        "deliveries": [
            row("deliveries", now, **who, queue="amq.gen-JzTY20BRgKO-HjmUJj0wLg", outcome="acked", latency_ns=7),
            row("deliveries", now, **who, queue="amq.gen-2zTY20BRgKO-HjmUJj0wLg", outcome="rejected"),
        ],
        "connections": [row("connections", now, **who)],
        "errors": [row("errors", now, **who, kind="nacked")],
    }  # fmt: skip
    frame = hourly(*(frame_of(spark, name, rows).coalesce(1) for name, rows in made.items()))
    ten, eleven = datetime(2026, 11, 2, 10, tzinfo=UTC), datetime(2026, 11, 2, 11, tzinfo=UTC)
    client = "shop / web-*"
    assert {(each.subject, each.name, each.measure, each.hour_start.replace(tzinfo=UTC)): each.value
            for each in frame.collect()} == {
        ("exchange", "(default)", "rate", ten): 3,
        ("exchange", "x", "rate", ten): 1,
        ("exchange", "x", "rate", eleven): 1,
        ("exchange", "x", "errors", ten): 1,
        ("exchange", "x", "errors", eleven): 1,
        ("exchange", "(default)", "latency", ten): 2,
        ("route", " → q", "rate", ten): 3,
        ("route", "x → k.*", "rate", ten): 1,
        ("route", "x → k", "rate", eleven): 1,
        ("client", client, "rate", ten): 4,
        ("client", client, "rate", eleven): 1,
        ("client", client, "errors", ten): 1,
        ("client", client, "churn", ten): 1,
        ("queue", "amq.gen-*", "rate", ten): 2,
        ("queue", "amq.gen-*", "errors", ten): 1,
        ("queue", "amq.gen-*", "latency", ten): 7,
    }  # fmt: skip


def test_what_was_recorded_is_known_by_the_minute(spark: SparkSession) -> None:
    events = frame_of(
        spark,
        "events",
        [
            row("events", at(time), chain=chain, file=file, type="publish")
            for chain, file, times in (
                ("a", "1", ("2026-11-02 10:50", "2026-11-02 10:58")),
                ("a", "2", ("2026-11-02 10:59", "2026-11-02 11:05")),
                ("b", "1", ("2026-11-02 11:00", "2026-11-02 11:06")),
                ("c", "1", ("2026-11-02 13:30", "2026-11-02 13:30")),
            )
            for time in times
        ],
    )
    found = {
        each.hour_start.strftime("%H"): each.seconds for each in recorded_hours(recorded_minutes(events)).collect()
    }
    assert found == {"10": 10 * 60, "11": 7 * 60, "13": 60}
