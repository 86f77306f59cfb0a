"""Each question, on tables whose answer is known."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

import duckdb

from amqproxy.pipeline.questions import QUESTIONS
from amqproxy.pipeline.questions.answer import answer_of_duckdb
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


def test_every_question_is_tested() -> None:
    assert {name for name, *_ in ASKED} == set(QUESTIONS)
