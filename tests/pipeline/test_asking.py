"""`pipeline ask`, `pipeline report`, `readiness --tables` and `rules suggest --tables`, as a person types them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import cyclopts
import msgspec
from pyspark.sql import SparkSession

from amqproxy.amqp091.methods import QueueDeclare, QueueDeclareOk
from amqproxy.amqp091.wire import Table
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.observed import observed
from amqproxy.cli import rules
from amqproxy.cli.failure import FAILED, MISUSED, Failure
from amqproxy.cli.pipeline.asking import ask, report
from amqproxy.cli.readiness import readiness
from amqproxy.pipeline.ledger import Ledger
from amqproxy.pipeline.questions import QUESTIONS
from amqproxy.pipeline.tables import stage
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.observer import ObserverSettings
from tests.export.dialogue import Dialogue
from tests.pipeline.captures_by_hand import capture_of
from tests.pipeline.event_frames import events_of
from tests.pipeline.known_tables import START_NS, write_known_tables, write_table

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three hours of two tenants."""
    path = tmp_path_factory.mktemp("asked")
    write_known_tables(path)
    return str(path)


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command, and returns what it printed on standard output and on standard error."""
    app = cyclopts.App(result_action="return_value")
    app.command(ask)
    app.command(report)
    app.command(rules.suggest)
    app.command(readiness)

    def run(*arguments: str) -> tuple[str, str]:
        app([*arguments], exit_on_error=False, print_error=False)
        printed = capsys.readouterr()
        return printed.out, printed.err

    return run


def test_without_a_name_questions_are_listed(typed: Any) -> None:
    out, _ = typed("ask")
    assert [line.split()[0] for line in out.splitlines()] == list(QUESTIONS)


def test_a_question_says_what_its_answer_means(typed: Any) -> None:
    out, _ = typed("ask", "poison", "--about")
    assert out.startswith("Sources of poison messages.")
    assert "--times  number of deliveries that makes a message poison" in out


def test_a_table_and_its_time(typed: Any, tables: str) -> None:
    out, told = typed("ask", "capacity", "--tables", tables)
    first, second, *rest = out.splitlines()
    assert first.split() == ["virtual", "host", "user", *("published", "published", "bytes", "delivered"),
                             "delivered", "bytes", "bytes", "share"]  # fmt: skip
    assert second.split()[:5] == ["lab", "-", "18", "17.6", "KiB"]
    assert rest[0].split()[:3] == ["shop", "-", "180"]
    assert "2 rows; 2026-10-24 01:00:00 to 2026-11-23 01:00:00 UTC" in told


def test_json_and_csv_have_plain_values(typed: Any, tables: str) -> None:
    out, _ = typed("ask", "publishers", "--exchange", "orders", "--tables", tables, "--json", "--start",
                   "2026-11-22T23:00:00", "--last", "1h")  # fmt: skip
    row = json.loads(out)
    assert (row["user"], row["messages"], row["bytes"], row["nacked"]) == ("alice", 60, 6000, 1)
    assert row["first"] == "2026-11-22T23:00:00Z"
    out, told = typed("ask", "slow-confirms", "--tables", tables, "--csv", "--limit", "2")
    assert out.splitlines()[0].startswith("latency_ns,time,exchange")
    assert out.splitlines()[1].startswith("60000000,")
    assert "2 rows, the first 2" in told


def test_what_has_no_rows_says_so(typed: Any, tables: str) -> None:
    out, told = typed("ask", "slower-consumers", "--tables", tables)
    assert out == ""
    assert "0 rows" in told
    assert "compared with" in told


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("publisher",), "no question 'publisher': did you mean `publishers`"),
        (("publishers",), "publishers needs --exchange"),
        (("transit", "--queue", "q"), "transit has no option --queue"),
        (("transit", "--last", "soon"), "'soon' is not a duration: write 30m, 12h, 7d or 4w"),
        (("transit", "--start", "noon"), "'noon' is not a time"),
        (("transit", "--start", "2026-11-02", "--end", "2026-11-01"), "ends before it begins"),
        (("transit", "--limit", "0"), "--limit 0: from 1 to 1000000000"),
        (("transit", "--limit", "1" + "0" * 20), f"--limit 1{'0' * 20}: from 1 to 1000000000"),
        (("transit", "--json", "--csv"), "--json or --csv, not both"),
        (("transit", "--tables", "/nowhere/at/all"), "no tables in /nowhere/at/all: make them with"),
    ],
)
def test_errors_say_what_to_do(typed: Any, tables: str, arguments: tuple[str, ...], error: str) -> None:
    given = arguments if "--tables" in arguments else (*arguments, "--tables", tables)
    with pytest.raises(Failure, match=error):
        typed("ask", *given)


def test_a_report_is_written(typed: Any, tables: str, tmp_path: Path) -> None:
    _, told = typed("report", "--tables", tables, "--to", str(tmp_path / "week.html"))
    page = (tmp_path / "week.html").read_text()
    assert "<b>198</b><span>messages published" in page
    assert "9 messages/s, not 1" in page
    assert "week.html: 2026-11-16 01:00:00 to 2026-11-23 01:00:00 UTC" in told


def test_a_report_of_tables_that_are_not_there_yet(typed: Any, tmp_path: Path) -> None:
    """Before the first findings and anomalies are looked for, there are none."""
    rows = [{"ts_ns": START_NS, "by": "all", "published": 7, "delivered": 1, "errors": 0}]
    write_table(tmp_path, "rollup_minute", rows)
    typed("report", "--tables", str(tmp_path), "--to", str(tmp_path / "a.html"))
    page = (tmp_path / "a.html").read_text()
    assert "<b>7</b><span>messages published" in page
    assert "<b>0</b><span>findings" in page


def test_readiness_of_tables_is_that_of_their_captures(
    typed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A queue of version 1, declared twelve times, of which the table has the first and the tenth."""
    made = Dialogue("shop")
    for _ in range(12):
        declare = QueueDeclare(queue="orders", durable=True, arguments=Table({"x-queue-version": 1}))
        made.client(declare).server(QueueDeclareOk("orders", 0, 0))
    (tmp_path / "a.pcapng").write_bytes(capture_of(made, Dialogue(stream=2, is_joined=True).publish("", "x", b"?")))
    who = {"connection_id": "a", "user": "shop"}
    found = [
        {**msgspec.to_builtins(each), **who, "evidence": None}
        for each in observed(read_decoded(tmp_path / "a.pcapng"), ObserverSettings(messages=False, findings=True))
        if isinstance(each, Finding)
    ]
    tables = tmp_path / "tables"
    opened = {"ts_ns": START_NS, "opened_ns": START_NS}
    write_table(tables, "connections", [{**opened, **who, "frame_max": 131072}, {**opened, "connection_id": "b"}])
    with pytest.raises(Failure, match="no connections and findings in") as failure:
        typed("readiness", "--tables", str(tables))
    assert failure.value.code == MISUSED
    write_table(tables, "findings", found)
    reports = []
    for given in (("--tables", str(tables)), (str(tmp_path / "a.pcapng"),)):
        with pytest.raises(Failure, match=r"not ready for RabbitMQ 4\.3") as failure:
            typed("readiness", *given, "--json")
        assert failure.value.code == FAILED
        reports.append(json.loads(capsys.readouterr().out))
    from_tables, from_captures = reports
    [use] = from_captures["uses"]
    assert (use.pop("times"), from_captures["unknown"]) == (12, 1)
    assert from_tables["uses"][0].pop("times") == 10  # the last count that is reported
    assert from_tables == from_captures


def test_spark_answers_where_a_master_is_named(typed: Any, tables: str, spark: SparkSession) -> None:
    asked = ("ask", "transit", "--tables", tables, "--json")
    assert typed(*asked, "--master", "local[2]") == typed(*asked)


@pytest.mark.on_duckdb
def test_access_lists_are_suggested_from_tables(typed: Any, tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "a.pcapng").write_bytes(capture_of(Dialogue("shop").declare("q").publish("", "q", b"x")))
    with Ledger(str(tmp_path / "tables")) as ledger:
        stage(ledger, "events", spark.createDataFrame(events_of([tmp_path / "a.pcapng"])))
        ledger.commit("ingest", ["events"])
    ours, told = typed("suggest", "--tables", str(tmp_path / "tables"))
    theirs, _ = typed("suggest", str(tmp_path / "a.pcapng"))
    assert ours == theirs.replace(str(tmp_path / "a.pcapng"), str(tmp_path / "tables"))
    assert "3 commands checked, 0 refused" in told
    with pytest.raises(Failure, match="there is no table events in"):
        typed("suggest", "--tables", str(tmp_path))
    with pytest.raises(Failure, match="not both"):
        typed("suggest", "a.pcapng", "--tables", str(tmp_path))
