"""The answers of Spark are those of DuckDB."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

import duckdb
from pyspark.sql import SparkSession

from amqproxy.pipeline.questions import QUESTIONS
from amqproxy.pipeline.questions.answer import answer_of_duckdb, answer_of_spark
from tests.pipeline.questions.asked import ASKED, span_of, tables
from tests.pipeline.rows import Row, arrow_of, frame_of

pytestmark = pytest.mark.once


def test_spark_answers_as_duckdb_does(spark: SparkSession) -> None:
    frames = {name: frame_of(spark, name, rows).coalesce(1) for name, rows in tables().items()}
    connection = duckdb.connect()
    for name, rows in tables().items():
        connection.register(name, arrow_of(name, rows))
    for name, options, times, _ in ASKED:
        question, asked = QUESTIONS[name], span_of(name, times)
        ours = answer_of_spark(spark, frames.__getitem__, question, asked, options)
        theirs = answer_of_duckdb(connection, question, asked, options)
        assert ours.column_names == theirs.column_names, name
        assert comparable(ours.to_pylist()) == comparable(theirs.to_pylist()), name


def comparable(rows: list[Row]) -> list[list[Any]]:
    return [[each.replace(tzinfo=None) if hasattr(each, "tzinfo") else each for each in row.values()] for row in rows]
