"""Parquet files of frames, messages or findings, compressed with zstd. Needs pyarrow: `amqproxy[analytics]`."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import UNSET

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as missing:
    raise ImportError(
        "Parquet needs pyarrow, which is not installed: pip install 'amqproxy[analytics]'", name="pyarrow"
    ) from missing

from amqproxy.capture.arrow import record_batches, schema
from amqproxy.capture.decoded import Decoded
from amqproxy.export.columns import columns
from amqproxy.taps.observer import Report
from amqproxy.taps.record import encoded
from amqproxy.views.columns import Columns, kinds_shown

ROWS = 10_000
"""Messages or findings per batch."""

MAX_BATCH_BYTES = 32 * 1024 * 1024
"""Size in bytes, as JSON, that ends a batch even if it has fewer rows: bodies may be large."""

_INTEGERS = {"ts_ns", "stream", "channel", "number", "confirm_tag", "delivery_tag", "size", "code", "count"} | {
    f"properties.{name}" for name in ("delivery_mode", "priority", "timestamp")
}
_LARGEST = (1 << 63) - 1
"""Largest integer; larger ones, possible for tags, are omitted."""
_BOOLEANS = {"multiple", "mandatory", "redelivered", "requeue"}
_LISTS = {"rules", "tags"}


def frames(decoded: Iterable[Decoded], *, body: int = 0) -> Iterator[bytes]:
    """Yield a file of frames in pieces: the columns of docs/arrow.md, with arguments and the first `body` bytes."""
    batches = record_batches(decoded, arguments=True, body=body)
    yield from _file(schema(arguments=True, body=body > 0), batches)


def reports(found: Iterable[Report], *, messages: bool, findings: bool, body: bool) -> Iterator[bytes]:
    """Yield a file of messages or findings in pieces: the columns of CSV, with the types of their values."""
    names = [
        name for name in columns(messages=messages, findings=findings) if name != "time" and (body or name != "body")
    ]
    chosen = Columns(names, kinds_shown(messages=messages, findings=findings))
    shape = pa.schema([pa.field("time", pa.timestamp("us", "UTC")), *(pa.field(name, _type(name)) for name in names)])

    def batches() -> Iterator[pa.RecordBatch]:
        for lines in _batched(found):
            rows = [[None if value is UNSET else value for value in row] for row in chosen.rows(lines)]
            values = dict(zip(names, zip(*rows, strict=True), strict=True))
            stamps = [_value("ts_ns", each) for each in values["ts_ns"]]
            micros = [None if each is None else each // 1000 for each in stamps]
            times = pa.array(micros, pa.int64()).cast(pa.timestamp("us", "UTC"))
            arrays = [times, *(pa.array([_value(name, each) for each in values[name]], _type(name)) for name in names)]
            yield pa.RecordBatch.from_arrays(arrays, schema=shape)

    yield from _file(shape, batches())


def _batched(found: Iterable[Report]) -> Iterator[bytes]:
    """Yield the lines of JSON of each batch."""
    lines: list[bytes] = []
    size = 0
    for each in found:
        line = each.to_json()
        lines.append(line)
        size += len(line)
        if len(lines) >= ROWS or size >= MAX_BATCH_BYTES:
            yield b"\n".join(lines)
            lines, size = [], 0
    if lines:
        yield b"\n".join(lines)


def _type(name: str) -> pa.DataType:
    if name in _INTEGERS:
        return pa.int64()
    if name == "seconds":
        return pa.float64()
    if name in _BOOLEANS:
        return pa.bool_()
    return pa.list_(pa.utf8()) if name in _LISTS else pa.utf8()


def _value(name: str, value: Any) -> Any:
    """Return a value in its column's type: tables, and lists of anything but texts, are JSON."""
    if name in _INTEGERS:
        return value if value is None or -_LARGEST <= value <= _LARGEST else None
    if value is None or name in _BOOLEANS or name in _LISTS or name == "seconds":
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return encoded(value).decode()


def _file(shape: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Yield a Parquet file in pieces as batches arrive."""
    sink = _Pieces()
    with pq.ParquetWriter(pa.PythonFile(sink, mode="w"), shape, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
            yield sink.take()
    yield sink.take()


class _Pieces(io.RawIOBase):
    """A writable file that keeps the written bytes until they are taken."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self._size += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._size

    def close(self) -> None:
        """Keep the file usable: written bytes still have to be taken."""

    def take(self) -> bytes:
        """Return the bytes written since the last call."""
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken
