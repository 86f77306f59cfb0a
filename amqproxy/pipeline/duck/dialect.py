"""Translation of Spark's SQL to DuckDB's: by sqlglot, with replacements for the functions that it leaves."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyspark.sql.types import DataType, TimestampType
from sqlglot import exp, parse_one

_HINT = re.compile(r"/\*\+.*?\*/", re.DOTALL)

MACROS = (
    "timestamp_micros(micros) AS make_timestamptz(CAST(micros AS BIGINT))",
    "timestamp_seconds(seconds) AS to_timestamp(CAST(seconds AS DOUBLE))",
    "local_time(time, zone) AS timezone(zone, time)",
    "log1p(value) AS ln(1 + value)",
    "weekday_of(day) AS dayofweek(day) + 1",
    "set_of(every) AS coalesce(list_distinct(every), [])",
)
"""Functions of Spark that DuckDB lacks, and others that take the place of Spark's; `_replaced` puts them there."""


def regexp_replaced(texts: pa.Array, patterns: pa.Array, replacements: pa.Array) -> pa.Array:
    """Return each text with what its pattern matches replaced, where `$1` is the first group."""
    if not len(texts):
        return pa.array([], pa.string())
    encoded = pa.compute.dictionary_encode(texts)
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    found = [
        _replaced_in(each, patterns[0].as_py(), replacements[0].as_py()) for each in encoded.dictionary.to_pylist()
    ]
    return pa.array(found, pa.string()).take(encoded.indices)


@lru_cache(65_536)
def _replaced_in(text: str, pattern: str, replacement: str) -> str:
    return re.sub(pattern, replacement.replace("$1", r"\1"), text, flags=re.ASCII)


@lru_cache(512)
def duckdb_text(text: str) -> str:
    """Return a query of Spark's in DuckDB's dialect. Raises `sqlglot.errors.SqlglotError` if it cannot be parsed."""
    tree = parse_one(_HINT.sub("", text), read="spark")
    for node in reversed(list(tree.walk())):  # what is within a function first
        made = _replaced(node)
        if made is not node:
            node.replace(made)
    return tree.sql(dialect="duckdb")


def duckdb_type(kind: DataType) -> str:
    """Return the DuckDB type of a column of Spark's."""
    if isinstance(kind, TimestampType):
        return "TIMESTAMPTZ"
    return exp.DataType.build(kind.simpleString(), dialect="spark").sql(dialect="duckdb")


def _json_structure(kind: exp.DataType) -> Any:
    """Return a type as DuckDB's `from_json` has it: a value of JSON that contains the names of types."""
    if kind.is_type("array"):
        return [_json_structure(kind.expressions[0])]
    if kind.is_type("struct"):
        return {each.name: _json_structure(each.args["kind"]) for each in kind.expressions}
    return kind.sql(dialect="duckdb")


def _replaced(node: exp.Expr) -> exp.Expr:
    match node:
        case exp.Select() if node.args.get("sort"):  # there is one partition
            node.set("order", exp.Order(expressions=node.args["sort"].expressions))
            node.set("sort", None)
        case exp.FromJson():
            columns = exp.DataType.build(node.expression.name, dialect="spark")
            node.set("expression", exp.Literal.string(json.dumps(_json_structure(columns))))
        case exp.Format():
            return exp.Anonymous(this="printf", expressions=[node.this, *node.expressions])
        case exp.RegexpReplace():  # by Python: DuckDB's expressions look neither ahead nor back
            return exp.Anonymous(
                this="regexp_replaced", expressions=[node.this, node.expression, node.args["replacement"]]
            )
        case exp.ArrayUniqueAgg():
            return exp.func("set_of", exp.Anonymous(this="list", expressions=[node.this]))
        case exp.CountIf():
            return exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=node.this))
        case exp.ApproxQuantile():
            return exp.Anonymous(this="quantile_disc", expressions=[node.this, node.args["quantile"]])
        case exp.AtTimeZone():  # from_utc_timestamp
            return exp.func("local_time", node.this.this, node.args["zone"])
        case exp.DayOfWeek():  # from 1
            return exp.func("weekday_of", node.this)
    return node
