"""Captures as Apache Arrow: batches of rows, one per record, for Spark, Parquet and any reader of Arrow.

The columns are those of `schema`, described in docs/arrow.md. The buffers that `FrameColumns` fills are handed over
without copying. Needs pyarrow: `amqproxy[analytics]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from amqproxy.capture.decoded import Decoded
from amqproxy.capture.frame_columns import (
    BOOL,
    BYTES,
    CLASS_NAMES,
    FRAME_FLAGS,
    FRAME_TYPES,
    INT8,
    INT32,
    INT64,
    KINDS,
    LEGS,
    METHOD_NAMES,
    SENDERS,
    TEXT,
    Column,
    FrameColumns,
)

try:
    import pyarrow as pa
except ImportError as missing:
    raise ImportError(
        "Arrow needs pyarrow, which is not installed: pip install 'amqproxy[analytics]'", name="pyarrow"
    ) from missing

ROWS = 16_384
"""Default number of rows of a batch."""

_DICTIONARIES: dict[str, tuple[str, ...] | None] = {
    "connection": None,
    "leg": LEGS,
    "sender": SENDERS,
    "protocol": None,
    "type": FRAME_TYPES,
    "class": CLASS_NAMES,
    "method": METHOD_NAMES,
    "verdict": None,
    "flags": FRAME_FLAGS,
}
"""Dictionary-encoded columns with their values, or None if each batch has its own dictionary."""

_FIXED = {name: pa.array(values, pa.utf8()) for name, values in _DICTIONARIES.items() if values is not None}

_LISTS = ("rules", "tags")
_ALWAYS = ("stream", "connection", "sender", "protocol", "type")
_TYPES = {INT64: pa.int64(), INT32: pa.int32(), INT8: pa.int8(), BOOL: pa.bool_(), TEXT: pa.utf8(), BYTES: pa.binary()}


def schema(*, arguments: bool = False, body: bool = False, dictionaries: bool = True) -> pa.Schema:
    """Return the columns of a batch from `record_batches` with the same options."""
    return pa.schema(
        [
            pa.field(name, _type(name, kind, dictionaries), nullable=name not in _ALWAYS)
            for name, kind in KINDS.items()
            if (arguments or name != "arguments") and (body or name != "body")
        ]
    )


def _type(name: str, kind: int, dictionaries: bool) -> pa.DataType:
    if name == "time":
        return pa.timestamp("us", "UTC")
    if name in _LISTS:
        return pa.list_(pa.field("item", pa.utf8(), nullable=False))
    if name in _DICTIONARIES:
        return pa.dictionary(_TYPES[kind], pa.utf8()) if dictionaries else pa.utf8()
    return _TYPES[kind]


def record_batches(
    decoded: Iterable[Decoded],
    *,
    rows: int = ROWS,
    arguments: bool = False,
    body: int = 0,
    dictionaries: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Yield decoded traffic as batches of `rows` rows, or fewer at the end or if texts are long.

    With `arguments` there is a column with all arguments in JSON, and with `body` one with the first `body` bytes of
    each body frame. Without `dictionaries` no column is dictionary-encoded, as Spark requires.
    """
    wanted = schema(arguments=arguments, body=body > 0, dictionaries=dictionaries)
    types = {field.name: field.type for field in wanted}
    empty = {name: pa.nulls(rows, each) for name, each in types.items()}
    ready: list[pa.RecordBatch] = []

    def full(columns: list[Column], count: int) -> None:
        arrays = [
            _array(column, count, types[column.name]) if column.count else empty[column.name][:count]
            for column in columns
            if column.name in types
        ]
        ready.append(pa.RecordBatch.from_arrays(arrays, schema=wanted))

    gathered = FrameColumns(full, rows=rows, body=body, arguments=arguments)
    for each in decoded:
        gathered.add(each)
        if ready:
            yield from ready
            ready.clear()
    gathered.flush()
    yield from ready


def _array(column: Column, count: int, kind: pa.DataType) -> pa.Array:
    """Return the first `count` values of a column, in its own buffers."""
    valid = None if column.count == count else pa.py_buffer(column.valid)
    data = pa.py_buffer(column.data)
    nulls = count - column.count
    if column.name in _LISTS:
        texts = pa.Array.from_buffers(pa.utf8(), count, [valid, data, _text(column)], nulls)
        return pa.array([text and msgspec.json.decode(text) for text in texts.to_pylist()], kind)
    if column.name in _DICTIONARIES:
        fixed = _FIXED.get(column.name)
        values = pa.array(tuple(column.numbers), pa.utf8()) if fixed is None else fixed
        of_numbers = pa.dictionary(_TYPES[column.kind], pa.utf8())
        encoded = pa.DictionaryArray.from_buffers(of_numbers, count, [valid, data], values, nulls)
        return encoded if kind == of_numbers else encoded.dictionary_decode()
    buffers: list[Any] = [valid, data]
    if column.kind in (TEXT, BYTES):
        buffers.append(_text(column))
    return pa.Array.from_buffers(kind, count, buffers, nulls)


def _text(column: Column) -> pa.Buffer:
    return pa.py_buffer(memoryview(column.text)[: column.size])
