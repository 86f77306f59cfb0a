"""What a question is: its options, the tables that it reads, and the time that it is about."""

from __future__ import annotations

import pytest

pytest.importorskip("duckdb")

from amqproxy.pipeline.questions import QUESTIONS
from amqproxy.pipeline.questions.question import Table
from amqproxy.pipeline.questions.span import SECOND, Span, seconds_of, span

pytestmark = pytest.mark.once

HOUR = 3600 * SECOND


def test_queries_and_their_options_fit() -> None:
    for name, question in QUESTIONS.items():
        assert question.name == name
        assert question.parameters == {each.name for each in question.options}, name
        assert question.about.strip().endswith("."), name
        assert "ts_ns <" not in question.sql, f"{name}: the span says when"


def test_a_question_knows_its_tables() -> None:
    assert QUESTIONS["slower-consumers"].tables == (Table("", "deliveries"), Table("earlier", "deliveries"))
    assert QUESTIONS["slower-consumers"].is_comparing
    assert not QUESTIONS["publishers"].is_comparing


@pytest.mark.parametrize(
    ("name", "given", "error"),
    [
        ("publishers", {}, "publishers needs --exchange"),
        ("publishers", {"queue": "q"}, "publishers has no option --queue; it has --exchange, --routing-key"),
        ("transit", {"queue": "q"}, "transit has no option --queue; it has no options"),
        ("capacity", {"by": "team"}, "--by must be one of virtual-host, user, not 'team'"),
        ("poison", {"times": "often"}, "--times must be a number, not 'often'"),
        ("poison", {"times": "9" * 20}, f"--times must be a number below 1000000000000, not '{'9' * 20}'"),
        ("objectives", {"objective": "nan"}, "--objective must be a number below 1000000000000, not 'nan'"),
        ("message", {}, "message needs --message-id or --digest"),
    ],
)
def test_wrong_options_are_refused(name: str, given: dict[str, str], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        QUESTIONS[name].values(dict(given))


def test_options_have_the_type_of_their_default() -> None:
    assert QUESTIONS["slower-consumers"].values({"factor": "2", "least": "5"}) == {"factor": 2.0, "least": 5}
    assert QUESTIONS["publishers"].values({"exchange": ""}) == {"exchange": "", "routing_key": None}


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({}, (1, 101, -99)),
        ({"start_ns": 50}, (50, 150, -50)),
        ({"end_ns": 50}, (-50, 50, -150)),
        ({"start_ns": 50, "end_ns": 60}, (50, 60, 40)),
        ({"start_ns": 50, "end_ns": 60, "before_ns": 0}, (50, 60, 0)),
    ],
)
def test_the_time_ends_with_what_is_newest(times: dict[str, int], expected: tuple[int, int, int]) -> None:
    hundred = 100
    scaled = {name: value * SECOND for name, value in times.items()}
    found = span(101 * SECOND - 1, hundred, **scaled)
    assert (found.start_ns, found.end_ns, found.before_ns) == tuple(each * SECOND for each in expected)


def test_a_time_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ValueError, match="ends before it begins"):
        span(0, 60, start_ns=5, end_ns=5)


def test_conditions_spare_partitions_and_hold_of_what_lasts() -> None:
    day = Span(24 * HOUR, 48 * HOUR, 0)
    assert day.condition("messages").split(" AND ") == [
        "ts_ns < 172800000000000",
        "ts_ns >= 86400000000000",
        "date >= DATE '1970-01-02'",
        "date <= DATE '1970-01-03'",
    ]
    assert "unix_micros(time) < 86400000000" in day.condition("rollup_minute", "earlier")
    assert "ts_ns >=" not in day.condition("messages", "all")
    assert "closed_ns IS NULL OR closed_ns >= 86400000000000" in day.condition("connections")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("1.5h", 5400), ("7d", 604_800), ("2w", 1_209_600)]
)
def test_durations(text: str, seconds: int) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "7", "-1d", "0s", "a week"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        seconds_of(text)
