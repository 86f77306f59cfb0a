"""Functions of Spark that DuckDB lacks, and others that take the place of Spark's in translated queries."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute
from duckdb.func import FunctionNullHandling, PythonUDFType

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_MACROS = (
    "timestamp_micros(micros) AS make_timestamptz(CAST(micros AS BIGINT))",
    "timestamp_seconds(seconds) AS to_timestamp(CAST(seconds AS DOUBLE))",
    "local_time(time, zone) AS timezone(zone, time)",
    "log1p(value) AS ln(1 + value)",
    "weekday_of(day) AS dayofweek(day) + 1",
    "set_of(every) AS coalesce(list_distinct(every), [])",
    "key_of(hash) AS CAST(hash >> 1 AS BIGINT)",
)


def create_functions(database: DuckDBPyConnection) -> None:
    """Create the functions in a database."""
    for macro in _MACROS:
        database.execute(f"CREATE TEMP MACRO {macro}")
    text = database.sqltype("VARCHAR")
    database.create_function(
        "regexp_replaced",
        regexp_replaced,
        [text, text, text],
        text,
        type=PythonUDFType.ARROW,
        null_handling=FunctionNullHandling.SPECIAL,
    )


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
