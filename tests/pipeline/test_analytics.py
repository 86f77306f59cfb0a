"""The questions of the Analytics screen, over tables with known numbers."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.pipeline.analytics import ASKED, Analytics
from amqproxy.pipeline.questions import PANELS, QUESTIONS
from amqproxy.pipeline.questions.span import Span as AskedSpan
from amqproxy.pipeline.reading import Reader
from amqproxy.pipeline.span import Span, Step, Subject, TooManyPoints
from tests.pipeline.known_tables import CONNECTION, HOUR, MINUTE, MS, START_NS, write_known_tables

pytestmark = pytest.mark.once

END_NS = START_NS + 3 * HOUR


@pytest.fixture(scope="module")
def analytics(tmp_path_factory: pytest.TempPathFactory) -> Analytics:
    directory = tmp_path_factory.mktemp("tables")
    write_known_tables(directory)
    return Analytics(Reader(str(directory)))


def span(step: Step = Step.HOUR, **more: Any) -> Span:
    return Span.chosen(START_NS, END_NS, step, **more)


def test_there_are_three_hours(analytics: Analytics) -> None:
    assert analytics.span() == (START_NS, END_NS)
    assert "rollup_minute" in analytics.names()


def test_traffic_by_step_and_subject(analytics: Analytics) -> None:
    every = analytics.traffic(span())
    assert [row["ts_ns"] for row in every] == [START_NS + n * HOUR for n in range(3)]
    first = every[0]
    assert (first["published"], first["published_bytes"], first["confirmed"], first["errors"]) == (66, 12_000, 65, 2)
    assert (first["delivered"], first["acked"], first["rejected"], first["nacked_publishes"]) == (66, 65, 1, 1)
    days = analytics.traffic(span(Step.DAY))
    assert [row["published"] for row in days] == [132, 66]
    assert len(analytics.traffic(span(Step.MINUTE))) == 180
    orders = analytics.traffic(span(by=Subject.EXCHANGE, name="orders"))
    assert [row["published"] for row in orders] == [60, 60, 60]
    assert sum(row["published"] for row in analytics.traffic(span(virtual_host="lab"))) == 18
    part = Span.chosen(START_NS + HOUR + 10 * MINUTE, START_NS + HOUR + 20 * MINUTE, Step.MINUTE)
    assert sum(row["published"] for row in analytics.traffic(part)) == 11


def test_latencies(analytics: Analytics) -> None:
    first, *_ = analytics.latencies(span(virtual_host="shop"))
    assert (first["confirm_count"], first["confirm_max"], first["transit_p99"]) == (60, 60 * MS, 2 * MS)
    assert abs(first["confirm_p50"] - 30.5 * MS) <= MS
    assert abs(first["ack_p90"] - 63.5 * MS) <= 2 * MS
    [only] = analytics.latencies(
        Span.chosen(START_NS, START_NS + MINUTE, Step.MINUTE, by=Subject.QUEUE, name="probes.raw")
    )
    assert (only["confirm_count"], only["ack_count"], only["ack_p50"], only["ack_max"]) == (0, 1, 10 * MS, 10 * MS)
    [user] = analytics.latencies(Span.chosen(START_NS, START_NS + MINUTE, Step.MINUTE, by=Subject.USER, name="bob"))
    assert (user["confirm_count"], user["confirm_p50"]) == (1, MS)


def test_who_is_busiest(analytics: Analytics) -> None:
    exchanges = analytics.top(span(by=Subject.EXCHANGE), 10)
    assert [(row["name"], row["published"]) for row in exchanges] == [("orders", 180), ("probes", 18)]
    [queue] = analytics.top(span(by=Subject.QUEUE), 1)
    assert (queue["name"], queue["delivered"], queue["published"]) == ("orders.new", 180, 0)
    clients = analytics.clients(span(), 10)
    assert [(row["name"], row["user"], row["published_bytes"]) for row in clients] == [
        ("alice's client", "alice", 18_000),
        ("bob's client", "bob", 18_000),
    ]


def test_what_stands_out(analytics: Analytics) -> None:
    [error] = analytics.errors(span(), 10)
    assert (error["count"], error["connections"], error["code"]) == (3, 1, 404)
    assert error["text"] == "NOT_FOUND - no queue 2"
    worst, other = analytics.findings(span(), 10)
    assert (worst["severity"], worst["count"]) == ("error", 1)
    assert (other["kind"], other["count"], other["text"], other["connection"]) == (
        *("no-prefetch", 100, "seen 100 times"),
        CONNECTION,
    )
    anomalies = analytics.anomalies(span(), 10)
    assert [(row["name"], row["score"], row["ts_ns"]) for row in anomalies] == [
        ("orders", 10.8, START_NS + HOUR),
        ("probes", 3.5, START_NS + HOUR),
    ]
    assert analytics.anomalies(Span.chosen(START_NS, START_NS + HOUR, None), 10) == []


def test_capacity_by_tenant(analytics: Analytics) -> None:
    assert analytics.capacity(span(), 10) == [
        {"virtual_host": host, "user": user, "published": count, "delivered": count, **dict.fromkeys(volumes, 18_000)}
        for host, user, count in (("lab", "bob", 18), ("shop", "alice", 180))
        for volumes in [("published_bytes", "delivered_bytes")]
    ]


@pytest.mark.parametrize("name", PANELS)
def test_answers_are_those_of_ask(analytics: Analytics, name: str) -> None:
    from amqproxy.pipeline.questions.answer import answer_of_reader

    asked = AskedSpan(START_NS + HOUR, END_NS, START_NS - HOUR)
    reader = analytics._reader
    for limit in (1, 50):
        ours = analytics.answer(name, Span.chosen(asked.start_ns, asked.end_ns, Step.HOUR), limit)
        assert ours == answer_of_reader(reader, QUESTIONS[name], asked, limit=limit).to_pylist()
    of_shop = analytics.answer(name, span(virtual_host="shop"), 50)
    assert {row.get("virtual_host") for row in of_shop} <= {"shop"}
    assert analytics.answer(name, span(virtual_host="no such"), 50) == []


def test_columns_have_the_types_of_the_tables() -> None:
    schema = pytest.importorskip("amqproxy.pipeline.schema")
    from pyspark.sql.pandas.types import to_arrow_schema

    for name, columns in ASKED.items():
        declared = to_arrow_schema(schema.TABLES[name], timezone="UTC")
        assert {each.name: each.type for each in columns} == {each: declared.field(each).type for each in columns.names}


def test_a_step_suits_its_time_and_too_many_points_are_refused() -> None:
    steps = [Span.chosen(0, hours * HOUR, None).step for hours in (1, 6, 24, 24 * 14, 24 * 365)]
    assert steps == [Step.MINUTE, Step.MINUTE, Step.HOUR, Step.HOUR, Step.DAY]
    with pytest.raises(TooManyPoints, match="longer steps"):
        Span.chosen(0, 24 * 365 * HOUR, Step.MINUTE)
