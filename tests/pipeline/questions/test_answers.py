"""Each question, on tables whose answer is known."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

import duckdb

from amqproxy.pipeline.questions import QUESTIONS
from amqproxy.pipeline.questions.answer import answer_of_duckdb
from amqproxy.pipeline.questions.text import head
from amqproxy.pipeline.questions.upgrade import uses
from tests.pipeline.questions.asked import ASKED, span_of, tables
from tests.pipeline.rows import arrow_of

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect()
    for name, rows in tables().items():
        made.register(name, arrow_of(name, rows))
    return made


@pytest.mark.parametrize(("name", "options", "times", "expected"), ASKED)
def test_the_answer_is_what_happened(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    options: dict[str, Any],
    times: dict[str, int],
    expected: list[dict[str, Any]],
) -> None:
    rows = answer_of_duckdb(connection, QUESTIONS[name], span_of(name, times), options).to_pylist()
    shown = [{key: row[key] for key in wanted} for row, wanted in zip(rows, expected, strict=False)]
    assert (shown, len(rows)) == (expected, len(expected))
    titles = [head(each) for row in rows[:1] for each in row]
    assert len(set(titles)) == len(titles), "a table tells columns apart by their titles"


@pytest.mark.parametrize("limit", [1, 3])
def test_uses_beyond_a_limit_are_counted_by_their_kind(connection: duckdb.DuckDBPyConnection, limit: int) -> None:
    rows = answer_of_duckdb(connection, uses(limit), span_of("upgrade", {}), {}).to_pylist()
    found = [tuple(each.values()) for each in rows]
    assert found[0] == ("rabbitmq4-global-qos", "shop", "pika 1.3", "basic.qos is asked for", 10)
    others = [
        ("rabbitmq4-frame-max", "mail", "amqplib 0.10", "frame_max 4096 is asked for", 1),
        ("rabbitmq4-queue-mode", "mail", "bunny", "queue made by us is declared", 1),
    ]
    assert found[1:] == (others if limit == 3 else [(kind, None, None, None, times) for kind, *_, times in others])


def test_every_question_is_tested() -> None:
    assert {name for name, *_ in ASKED} == set(QUESTIONS)
