"""The report: its figures, and that nothing in a message can inject markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping

import pytest

pytest.importorskip("pyspark")

import duckdb
import pyarrow as pa

from amqproxy.pipeline.questions.answer import answer_of_duckdb
from amqproxy.pipeline.questions.question import Question, Value
from amqproxy.pipeline.questions.span import span
from amqproxy.pipeline.report import Ask, question_of, report_page
from tests.pipeline.questions.asked import END, tables
from tests.pipeline.rows import DAY, Row, arrow_of, row

pytestmark = pytest.mark.once

BAD = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[2J"
EVIDENCE = {"ask": "publishers", "options": {"exchange": "a b", "routing_key": BAD}, "start": "2026-11-15T10:00:00Z"}


def asker(rows: Mapping[str, list[Row]]) -> Ask:
    connection = duckdb.connect()
    for name, each in rows.items():
        connection.register(name, arrow_of(name, each))

    def ask(question: Question, options: Mapping[str, Value]) -> pa.Table:
        return answer_of_duckdb(connection, question, span(END - 1, 7 * DAY // 10**9), options)

    return ask


def page(rows: Mapping[str, list[Row]]) -> str:
    return "".join(report_page(asker(rows), span(END - 1, 7 * DAY // 10**9), "tables"))


def hostile() -> dict[str, list[Row]]:
    """All texts of all tables say something bad."""
    made = {name: [dict(each) for each in rows] for name, rows in tables().items()}
    made["anomalies"] = [
        row("anomalies", END - DAY, subject="exchange", name=BAD, virtual_host=BAD, measure="rate", score=9.5, text=BAD,
            evidence=json.dumps(EVIDENCE))
    ]  # fmt: skip
    for name in ("exchange", "queue", "user"):
        made["rollup_minute"].append(
            row("rollup_minute", END - DAY, by=name, name=BAD, virtual_host=BAD, published=1, delivered=0,
                published_bytes=1, delivered_bytes=0, errors=0, redelivered=0)
        )  # fmt: skip
    kept = {"by", "outcome", "kind", "severity", "route", "method", "measure", "connection_id", "evidence", "digest",
            "published_connection_id"}  # fmt: skip
    for rows in made.values():
        for each in rows:
            each |= {name: BAD for name, value in each.items() if isinstance(value, str) and name not in kept}
    return made


def scripts(text: str) -> Iterator[tuple[str, str]]:
    yield from re.findall(r"<script([^>]*)>(.*?)</script>", text, re.DOTALL)


def test_nothing_in_a_message_can_inject_markup() -> None:
    text = page(hostile())
    found = list(scripts(text))
    assert len(found) == 3, "the figures, Plotly, and what draws"
    assert found[0][0] == ' type="application/json" id="plots"'
    outside = re.sub(r"<script[^>]*>.*?</script>", "", text, flags=re.DOTALL)
    assert "alert(1)" in outside, "it is shown"
    assert "<img" not in outside
    assert "\u202e" not in outside
    assert "\x1b" not in outside
    assert not re.search(r"<[^>]*\son\w+=", outside)
    for _, script in found[1:]:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in text
    assert "default-src 'none'" in text
    assert not re.search(r'(src|href)="?(https?:)?//', outside), "it loads nothing"


def test_its_figures_are_those_of_the_tables() -> None:
    rows = tables()
    rows["rollup_minute"] = [each for each in rows["rollup_minute"] if each["by"] != "all"]
    minutes = [END - DAY + each * 60 * 10**9 for each in (0, 1, 600)]
    rows["rollup_minute"] += [
        row("rollup_minute", each, by="all", published=600, published_bytes=6000, delivered=300, delivered_bytes=1,
            errors=1, confirm_p50_ns=1_000_000, confirm_p99_ns=5_000_000 + place)
        for place, each in enumerate(minutes)
    ]  # fmt: skip
    rows["rollup_minute"] += [
        row("rollup_minute", each, by="all", virtual_host="quiet", published=0, delivered=delivered, open=1)
        for each, delivered in ((minutes[0], 1), (minutes[2] + 60 * 10**9, 0))
    ]  # fmt: skip
    text = page(rows)
    assert "<b>1,800</b><span>messages published" in text
    assert "<b>3</b><span>minutes with traffic" in text, "in whichever virtual hosts"
    plots = json.loads(next(script for attributes, script in scripts(text) if "json" in attributes))
    assert [each["title"] for each in plots][:2] == ["Messages", "Bodies"]
    published = plots[0]["series"][0]
    assert published["name"] == "published"
    width = (plots[0]["times"][1] - plots[0]["times"][0]) / 1000
    drawn = [each for each in published["values"] if each is not None]
    assert sum(drawn) * width == pytest.approx(1800)
    assert len(drawn) == 2, "minutes without a row are gaps"
    assert max(each for each in plots[2]["series"][1]["values"] if each) == pytest.approx(5.000002)
    assert "errors, and the clients" in text.lower()
    assert "NO_ROUTE" in text


def test_the_plots_show_what_was_recorded_of_the_week_minute_by_minute() -> None:
    rows = tables()
    counts = {"published_bytes": 0, "delivered": 0, "delivered_bytes": 0, "errors": 0}
    rows["rollup_minute"] = [
        row("rollup_minute", END - DAY + n * 60 * 10**9, by="all", published=60 * n, **counts) for n in range(10)
    ]
    plots = json.loads(next(script for attributes, script in scripts(page(rows)) if "json" in attributes))
    assert plots[0]["unit"] == "messages/s"
    assert plots[0]["series"][0]["values"] == [*range(10), None]
    assert plots[0]["times"][0] == (END - DAY) / 1e6


def test_a_report_of_nothing_says_so() -> None:
    text = page({name: [] for name in tables()})
    assert text.count('<p class="none">none</p>') >= 8


def test_an_anomaly_names_the_question_to_ask() -> None:
    command = question_of(json.dumps(EVIDENCE))
    assert command.startswith("pipeline ask publishers --exchange 'a b' --routing-key '</script>")
    assert command.endswith("--start 2026-11-15T10:00:00Z --last 1h")
    assert question_of(None) == ""
