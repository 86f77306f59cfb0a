"""Bodies that are made to harm what decodes them."""

from __future__ import annotations

import gzip
import io
from typing import Any

import fastavro

RECURSIVE = {"type": "record", "name": "A", "fields": [{"name": "a", "type": ["null", "A"]}]}


def number(value: int) -> bytes:
    """A count as Avro has it."""
    value <<= 1
    found = b""
    while value >= 0x80:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def avro_file(schema: Any, record: Any, payload: bytes) -> bytes:
    """A file of Avro with this schema in it, whose one record has these bytes."""
    stream = io.BytesIO()
    fastavro.writer(stream, schema, [record])
    file = stream.getvalue()
    sync = file[-16:]
    return file[: file.index(sync)] + sync + number(1) + number(len(payload)) + payload + sync


def avro_without_end() -> bytes:
    """An array of 2^40 nulls, which take no byte."""
    return avro_file({"type": "array", "items": "null"}, [None], number(1 << 40) + b"\0")


def avro_bottomless() -> bytes:
    """A record within a record, 200,000 times."""
    return avro_file(RECURSIVE, {"a": None}, b"\x02" * 200_000 + b"\0")


def packed_fields() -> bytes:
    """Two million fields of Protobuf, in some thousand bytes."""
    return gzip.compress(b"\x08\x01" * (2 << 20))
