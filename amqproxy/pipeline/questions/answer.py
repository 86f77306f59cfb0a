"""Answers to questions as Arrow tables, from Spark or DuckDB: the same query, and the same rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from amqproxy.pipeline.questions.question import Question, Value
from amqproxy.pipeline.questions.span import Span, lasts

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from amqproxy.pipeline.reading import Reader

_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")

_LIKE_SPARK = {
    "approx_percentile(": "quantile_disc(",
    "timestamp_micros(": "make_timestamp(",
    "unix_micros(": "epoch_us(",
}
"""Spark functions with other names in DuckDB. Spark's percentiles are exact too, up to 10,000 values."""

_NULLS = "SET default_null_order = 'nulls_first_on_asc_last_on_desc'"


def answer_of_spark(
    spark: SparkSession,
    read: Callable[[str], DataFrame],
    question: Question,
    span: Span,
    given: Mapping[str, Value] | None = None,
    *,
    limit: int | None = None,
) -> pa.Table:
    """Return the answer from the tables that `read` returns by name."""
    args = _arguments(question, given, limit)
    frames = {each.placeholder: read(each.name).where(span.condition(each.name, each.when)) for each in question.tables}
    return spark.sql(question.sql, args, **frames).limit(limit or question.limit).toArrow()


def answer_of_duckdb(
    connection: duckdb.DuckDBPyConnection,
    question: Question,
    span: Span,
    given: Mapping[str, Value] | None = None,
    *,
    limit: int | None = None,
) -> pa.Table:
    """Return the answer from the relations of `connection`, named like the tables."""
    connection.execute(_NULLS)
    text, args = _query(question, span, given, limit)
    return connection.sql(text, params=args).to_arrow_table()


def answer_of_reader(
    reader: Reader,
    question: Question,
    span: Span,
    given: Mapping[str, Value] | None = None,
    *,
    limit: int | None = None,
) -> pa.Table:
    """Return the answer from the tables on disk, without Spark; raise `Unreadable`."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    from amqproxy.pipeline.schema import TABLES

    schemas = {each.name: to_arrow_schema(TABLES[each.name], timezone="UTC") for each in question.tables}
    return pa.Table.from_pylist(rows_of_reader(reader, question, span, schemas, given, limit=limit))


def rows_of_reader(
    reader: Reader,
    question: Question,
    span: Span,
    schemas: Mapping[str, pa.Schema],
    given: Mapping[str, Value] | None = None,
    *,
    limit: int | None = None,
    virtual_host: str | None = None,
) -> list[dict[str, Any]]:
    """Return the rows of the answer from the columns `schemas` of the tables on disk, without Spark; raise
    `Unreadable`. With `virtual_host`, only rows of that one are taken from each table.
    """
    text, args = _query(question, span, given, limit, has_partitions=False, virtual_host=virtual_host)
    whole = {each.name for each in question.tables if each.when == "all" or lasts(each.name)}
    start_ns = span.before_ns if question.is_comparing else span.start_ns
    asked = {each.name: schemas[each.name] for each in question.tables}
    return reader.query(text, asked, args, start_ns, span.end_ns, whole=whole)


def _query(
    question: Question,
    span: Span,
    given: Mapping[str, Value] | None,
    limit: int | None,
    *,
    has_partitions: bool = True,
    virtual_host: str | None = None,
) -> tuple[str, dict[str, Any]]:
    """Return the query in DuckDB's dialect, and its parameters."""
    args = _arguments(question, given, limit)
    in_host = ""
    if virtual_host is not None:
        args["virtual_host"] = virtual_host
        in_host = " AND virtual_host = $virtual_host"
    tables = {
        each.placeholder: f'(SELECT * FROM "{each.name}" WHERE '
        f"{span.condition(each.name, each.when, has_partitions=has_partitions)}{in_host})"
        for each in question.tables
    }
    text = _PARAMETER.sub(r"$\1", question.sql).format(**tables)
    for ours, theirs in _LIKE_SPARK.items():
        text = text.replace(ours, theirs)
    return f"{text} LIMIT {limit or question.limit}", args


def _arguments(question: Question, given: Mapping[str, Value] | None, limit: int | None) -> dict[str, Any]:
    if limit is not None and limit < 1:
        raise ValueError("--limit is at least 1")
    values = question.values(dict(given or {}))
    return {name: value for name, value in values.items() if name in question.parameters}
