"""What is kept of the hours is what they would be measured to be again; and only hours with new rows are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import pyarrow.parquet as pq

from amqproxy.pipeline import anomaly_history, jobs
from amqproxy.pipeline.anomalies import AnomalySettings
from amqproxy.pipeline.anomaly_history import MEASURED, RECORDED, history
from amqproxy.pipeline.ledger import Ledger
from amqproxy.pipeline.tables import Tables, hour_of
from tests.pipeline.rows import DAY, SECOND, Row, arrow_of, at, row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.once, pytest.mark.both_engines(usual=False)]

HOUR = 3600 * SECOND
TEN = at("2026-11-02 10:00")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(str(tmp_path)) as held:
        yield held


def settle(held: Ledger, *rows: tuple[str, Row]) -> None:
    """Commit rows of some tables as a batch, each with the event of its time."""
    tables: dict[str, list[Row]] = {}
    for name, values in rows:
        tables.setdefault(name, []).append({**values, "batch": held.next_batch})
        if name != "events":
            ts_ns = values.get("ts_ns") or values["opened_ns"]
            event = row("events", ts_ns, type="publish", file=f"{ts_ns}.pcap", batch=held.next_batch)
            tables.setdefault("events", []).append(event)
    for name, each in tables.items():
        for number, values in enumerate(each):
            hour = Path(held.path, held.staging(name), f"date={values['date']}", f"hour={values['hour']}")
            hour.mkdir(parents=True, exist_ok=True)
            pq.write_table(arrow_of(name, [values]).drop(["date", "hour"]), hour / f"{number}.parquet")
    held.commit("settle", tables)


def message(ts_ns: int, **values: Any) -> tuple[str, Row]:
    return "messages", row("messages", ts_ns, exchange="orders", routing_key="new", virtual_host="/", **values)


def search(spark: SparkSession, held: Ledger) -> None:
    """What a search for anomalies keeps, without the search."""
    hours = jobs._touched(held, "anomalies", anomaly_history.COUNTED)
    starts = [jobs._start_ns(hour) // SECOND for hour in hours]
    history(spark, held, starts, AnomalySettings())
    held.commit("anomalies", [], through=held.contents.batch, carried=[MEASURED, RECORDED])


def kept(held: Ledger, name: str) -> list[dict[str, Any]]:
    path = held.carried("anomalies", name)
    assert path is not None
    rows = pq.read_table(Path(held.path, path)).to_pylist()
    return sorted(rows, key=repr)


def test_two_searches_keep_what_one_measures(spark: SparkSession, tmp_path: Path) -> None:
    first = [message(TEN, outcome="confirmed", latency_ns=5), message(TEN + HOUR), message(TEN + DAY)]
    second = [message(TEN + 60 * SECOND, outcome="nacked"), message(TEN + DAY + HOUR)]
    second.append(("deliveries", row("deliveries", TEN + DAY, queue="mail", virtual_host="/", outcome="rejected")))
    second.append(("connections", row("connections", TEN, user="shop", client="web", virtual_host="/")))
    with Ledger(str(tmp_path / "one")) as one, Ledger(str(tmp_path / "two")) as two:
        settle(one, *first, *second)
        search(spark, one)
        for rows in (first, second):
            settle(two, *rows)
            search(spark, two)
        assert kept(one, MEASURED) == kept(two, MEASURED)
        assert kept(one, RECORDED) == kept(two, RECORDED)
        assert {each["minutes"] for each in kept(one, RECORDED)} == {1, 3}
        assert {(each["subject"], each["measure"]) for each in kept(one, MEASURED)} >= {
            ("exchange", "errors"),
            ("exchange", "latency"),
            ("queue", "errors"),
            ("client", "churn"),
        }


def test_only_hours_with_new_rows_are_read(
    spark: SparkSession, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(ledger, *(message(TEN + hour * HOUR) for hour in range(4)))
    jobs.anomalies(spark, ledger, jobs.Settings())
    settle(ledger, message(TEN + 3 * HOUR), message(TEN + 4 * HOUR))
    read: dict[str, set[int]] = {}
    read_files = Tables.read_files

    def noting(tables: Tables, spark: SparkSession, name: str, files: list[str]) -> Any:
        read.setdefault(name, set()).update(hour_of(file)[1] for file in files)
        return read_files(tables, spark, name, files)

    monkeypatch.setattr(Tables, "read_files", noting)
    jobs.anomalies(spark, ledger, jobs.Settings())
    assert read == {
        "messages": {13, 14},
        "events": {13, 14},
        "deliveries": set(),
        "connections": set(),
        "errors": set(),
    }
    assert jobs.anomalies(spark, ledger, jobs.Settings()).batch is None


def test_of_old_hours_only_what_was_first_is_kept(spark: SparkSession, ledger: Ledger) -> None:
    judged = AnomalySettings()
    far = TEN + (anomaly_history.kept_days(judged) + 2) * DAY
    settle(ledger, message(TEN), message(TEN + HOUR), message(far))
    search(spark, ledger)
    settle(ledger, message(far + HOUR))
    search(spark, ledger)
    hours = {each["hour_start"].timestamp() for each in kept(ledger, MEASURED)}
    assert hours == {each // SECOND for each in (TEN, far, far + HOUR)}
    assert len(kept(ledger, RECORDED)) == 4, "an hour without traffic is known to have been recorded"
    settle(ledger, message(TEN + 2 * HOUR))
    search(spark, ledger)
    assert len({each["hour_start"] for each in kept(ledger, MEASURED)}) == 5, "all is measured anew for what is so late"
