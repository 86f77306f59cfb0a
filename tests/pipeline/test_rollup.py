"""What is counted for each minute equals a plain loop's; percentiles are within 1 % of exact ones."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from amqproxy.pipeline import schema
from amqproxy.pipeline.rollup import MAX_LIFE_DAYS, hours_of, rollup_minute, without_contents

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

pytestmark = [pytest.mark.once, pytest.mark.both_engines]

START = datetime(2026, 11, 23, 7, 58, tzinfo=UTC)
Row = dict[str, Any]

_OUTCOMES = {
    "message": ("confirmed", "confirmed", "nacked", "sent", "unknown"),
    "delivery": ("acked", "acked", "nacked", "rejected", "auto-acked"),
}


def _made(kind: str, count: int) -> list[Row]:
    chosen = random.Random(kind)
    rows = []
    for _ in range(count):
        outcome = chosen.choice(_OUTCOMES[kind])
        is_timed = outcome not in ("sent", "unknown", "auto-acked")
        row: Row = {
            "chain": "c",
            "connection": chosen.choice(("one", "two")),
            "user": chosen.choice(("ann", "bob", None)),
            "virtual_host": chosen.choice(("/", "other")),
            "exchange": chosen.choice(("orders", "")),
            "time": START + timedelta(seconds=chosen.randrange(240)),
            "size": chosen.choice((None, 0, 100)),
            "outcome": outcome,
            "latency_ns": int(10 ** chosen.uniform(0, 9)) if is_timed else None,
        }
        if kind == "message":
            row["route"] = chosen.choice((None, None, "returned"))
        else:
            row["queue"] = chosen.choice(("q", None))
            row["redelivered"] = chosen.random() < 0.2
            row["transit_ns"] = chosen.choice((None, chosen.randrange(10**8)))
        rows.append(row)
    return rows


def _frame(spark: SparkSession, table: StructType, rows: list[Row]) -> DataFrame:
    return spark.createDataFrame([tuple(row.get(name) for name in table.names) for row in rows], table)


def _expected(messages: list[Row], deliveries: list[Row]) -> tuple[dict[Any, Counter[str]], dict[Any, list[int]]]:
    counts: dict[Any, Counter[str]] = defaultdict(Counter)
    latencies: dict[Any, list[int]] = defaultdict(list)
    for rows, kind in ((messages, "publish"), (deliveries, "deliver")):
        for row in rows:
            for by in ("connection", "exchange", "queue", "user", "all"):
                name = None if by == "all" else row.get(by)
                if by != "all" and name is None:
                    continue
                key = (row["time"].replace(second=0), by, name, row["virtual_host"])
                _count(counts[key], row, kind)
                if row["outcome"] in ("confirmed", "acked"):
                    latencies[*key, "confirm" if kind == "publish" else "ack"].append(row["latency_ns"])
                if row.get("transit_ns") is not None:
                    latencies[*key, "transit"].append(row["transit_ns"])
    return counts, latencies


def _count(count: Counter[str], row: Row, kind: str) -> None:
    passed = "published" if kind == "publish" else "delivered"
    count[passed] += 1
    count[f"{passed}_bytes"] += row["size"] or 0
    name = row["outcome"]
    if name == "nacked" and kind == "publish":
        name = "nacked_publishes"
    if name in ("confirmed", "nacked_publishes", "acked", "nacked", "rejected"):
        count[name] += 1
    count["returned"] += row.get("route") == "returned"
    count["redelivered"] += row.get("redelivered", False)


def test_minutes_are_those_of_a_plain_loop(spark: SparkSession) -> None:
    messages, deliveries = _made("message", 900), _made("delivery", 900)
    lives = [
        {"chain": "c", "connection": "one", "virtual_host": "/", "time": START, "closed_ns": _ns(130)},
        {"chain": "c", "connection": "two", "virtual_host": "/", "time": START + timedelta(minutes=3)},
    ]
    errors = [{"chain": "c", "connection": "one", "virtual_host": "/", "kind": "lost", "time": START}]
    rows = rollup_minute(
        _frame(spark, schema.MESSAGES, messages),
        _frame(spark, schema.DELIVERIES, deliveries),
        _frame(spark, schema.CONNECTIONS, lives),
        _frame(spark, schema.ERRORS, errors),
    )
    assert rows.columns == schema.ROLLUP_MINUTE.names
    found = {}
    for row in rows.collect():
        key = (row["minute"].astimezone(UTC), row["by"], row["name"], row["virtual_host"])
        assert key not in found
        found[key] = row.asDict()
    counts, latencies = _expected(messages, deliveries)
    assert set(counts) <= set(found)
    for key, row in found.items():
        for name in ("published", "published_bytes", "confirmed", "nacked_publishes", "returned", "delivered"):
            assert row[name] == counts[key][name], (key, name)
        for name in ("delivered_bytes", "acked", "nacked", "rejected", "redelivered"):
            assert row[name] == counts[key][name], (key, name)
        for measure in ("confirm", "ack", "transit"):
            _check_percentiles(row, measure, sorted(latencies[*key, measure]))
    open_ones = [found[START + timedelta(minutes=each), "all", None, "/"]["open"] for each in range(4)]
    assert open_ones == [1, 1, 1, 1]
    assert sum(row["errors"] for key, row in found.items() if key[1] == "all") == 1
    assert found[START, "connection", "one", "/"]["errors"] == 1


HOUR = timedelta(hours=1)


def test_what_ends_later_is_added_to_what_was_counted(spark: SparkSession) -> None:
    """Of the hours in which only connections are new, no message is counted again; the rows are those of one count."""

    def life(name: str, start: datetime, closed_ns: int | None) -> Row:
        return {
            "chain": "c",
            "connection": name,
            "virtual_host": "/",
            "user": "u",
            "time": start,
            "closed_ns": closed_ns,
        }

    messages = [each | {"time": each["time"] + HOUR * (place % 3)} for place, each in enumerate(_made("message", 60))]
    late = [each | {"time": each["time"] + HOUR} for each in _made("delivery", 30)]
    early = [life("one", START, _ns(150))]
    ended = [
        life("one", START, _ns(2 * 3600)),
        life("backwards", START + HOUR, _ns(0)),
        life("open", START + HOUR, None),
    ]

    def counted(messages: list[Row], deliveries: list[Row], lives: list[Row], **more: Any) -> DataFrame:
        kinds = (schema.MESSAGES, messages), (schema.DELIVERIES, deliveries), (schema.CONNECTIONS, lives)
        return rollup_minute(*(_frame(spark, *each) for each in kinds), _frame(spark, schema.ERRORS, []), **more)

    def rows(frame: DataFrame) -> list[str]:
        return sorted(map(str, frame.collect()))

    again = "date_trunc('hour', minute) = timestamp'2026-11-23 08:00:00'"
    first = counted(messages, [], early).localCheckpoint()
    before = without_contents(first.where(again)).unionAll(first.where(f"not ({again})"))
    of_hour = [each for each in messages if each["time"].hour == 8]
    assert rows(counted(of_hour, late, ended, before=before)) == rows(counted(messages, late, [*early, *ended]))
    found = [(f"{row.date}", row.hour) for row in hours_of(_frame(spark, schema.CONNECTIONS, ended)).collect()]
    assert sorted(found) == [("2026-11-23", 7), ("2026-11-23", 8), ("2026-11-23", 9)]
    decades = [life("a clock that was wrong", datetime(1970, 1, 1, tzinfo=UTC), _ns(30))]
    assert len(hours_of(_frame(spark, schema.CONNECTIONS, decades)).collect()) == MAX_LIFE_DAYS * 24 + 1


def _ns(seconds: int) -> int:
    return int((START + timedelta(seconds=seconds)).timestamp()) * 10**9


def _check_percentiles(row: Row, measure: str, exact: list[int]) -> None:
    if not exact:
        assert row[f"{measure}_p50_ns"] is None
        assert row[f"{measure}_max_ns"] is None
        return
    assert row[f"{measure}_max_ns"] == exact[-1]
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        wanted = exact[ceil(share * len(exact)) - 1]
        assert abs(row[f"{measure}_{name}_ns"] - wanted) <= 1 + wanted * 0.01, (measure, name, wanted)
