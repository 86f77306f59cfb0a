"""Frames of captures as rows of the table `frames`, in Arrow batches, as in `decode --json`; needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa

from amqproxy.capture.arrow import ROWS, record_batches, schema
from amqproxy.capture.decoded import Decoded, DecodedFrames, StreamEnded
from amqproxy.capture.files import CaptureFile
from amqproxy.capture.selection.selection import Selection
from amqproxy.capture.share import Share
from amqproxy.pipeline.chain_reading import ChainReading, LostPart
from amqproxy.pipeline.event_columns import fitting

_ALWAYS = ("type", "chain", "file", "row")
_OWN = ("chain", "connection_id", "file", "row")
_LISTS = pa.list_(pa.field("element", pa.utf8(), nullable=False))
_NAMES = pa.dictionary(pa.int32(), pa.utf8())
"""Encoding of columns with few values."""


def _schema(dictionaries: bool) -> pa.Schema:
    fields = []
    for field in schema(arguments=True, body=True, dictionaries=dictionaries):
        kind = _LISTS if pa.types.is_list(field.type) else field.type
        fields.append(pa.field(field.name, kind, nullable=field.name not in _ALWAYS))
    for name in _OWN:
        kind = pa.int64() if name == "row" else _NAMES if dictionaries else pa.utf8()
        fields.append(pa.field(name, kind, nullable=name not in _ALWAYS))
    return pa.schema(fields)


SCHEMA = _schema(False)
"""Columns of a batch."""

ENCODED = _schema(True)
"""Columns of a batch with dictionary-encoded names; each batch has its own dictionaries."""

EVERYTHING = Selection()

PLACES = 1 << 20
"""Factor of a packet's number in row numbers, if packets are shared among processes."""


def frame_batches(
    reading: ChainReading,
    files: Sequence[CaptureFile],
    selection: Selection = EVERYTHING,
    *,
    body: int = 0,
    rows: int = ROWS,
    share: Share | None = None,
    dictionaries: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the frames of the capture files of a chain, decoded by a `ChainReading`, and a row for each lost part.

    Rows have the first `body` bytes of body frames, and are numbered in each file. With a `share`, which is that of the
    reading, row numbers are based on packets and only order the rows. The columns are `SCHEMA`; with `dictionaries`,
    `ENCODED`.
    """
    columns = ENCODED if dictionaries else SCHEMA
    decoded = selection.narrowed(selection.connections(reading.decoded(files)))
    for file, of_file in groupby(decoded, lambda _: reading.file):
        numbered = _Numbered(of_file, share)
        row = 0
        for batch in record_batches(numbered, rows=rows, arguments=True, body=body, dictionaries=dictionaries):
            count = batch.num_rows
            numbers = np.arange(row, row + count) if share is None else numbered.take(count)
            row += count
            yield _completed(batch, reading, file or "", numbers, columns)
            reading.forget_ended()
        if reading.lost:
            yield _lost(reading, row, columns)
    if reading.lost:
        yield _lost(reading, 0, columns)


class _Numbered:
    """Decoded items that note the packets of their rows, if packets are shared."""

    def __init__(self, decoded: Iterable[Decoded], share: Share | None) -> None:
        self._decoded = decoded
        self._share = share
        self._numbers: list[int] = []

    def __iter__(self) -> Iterator[Decoded]:
        share = self._share
        if share is None:
            yield from self._decoded
            return
        position = place = 0
        for each in self._decoded:
            if share.position != position:
                position, place = share.position, 0
            if isinstance(each, DecodedFrames):
                count = len(each.frames)
            else:
                count = int(not isinstance(each, StreamEnded))
            first = position * PLACES + place
            self._numbers += range(first, first + count)
            place += count
            yield each

    def take(self, count: int) -> list[int]:
        """Return the numbers of the next rows."""
        taken, self._numbers = self._numbers[:count], self._numbers[count:]
        return taken


def _completed(
    batch: pa.RecordBatch, reading: ChainReading, file: str, numbers: Sequence[int] | np.ndarray, schema: pa.Schema
) -> pa.RecordBatch:
    """Return a batch with the columns of `schema`."""
    count = batch.num_rows
    streams = batch.column("stream").dictionary_encode()
    names = [reading.connection_id(each) for each in streams.dictionary.to_pylist()]
    own = {
        "chain": _repeated(reading.chain, count),
        "connection_id": pa.DictionaryArray.from_arrays(streams.indices, pa.array(names, pa.utf8())),
        "file": _repeated(file, count),
        "row": pa.array(numbers, pa.int64()),
    }
    columns = {name: batch.column(name) for name in batch.schema.names} | own
    return pa.RecordBatch.from_arrays(
        [
            columns[field.name].cast(field.type) if field.name in columns else pa.nulls(count, field.type)
            for field in schema
        ],
        schema=schema,
    )


def _repeated(text: str, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), pa.array([text], pa.utf8()))


def _lost(reading: ChainReading, row: int, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of type error about unreadable parts of files."""
    return pa.RecordBatch.from_pylist(
        [_row(part, reading.chain, row + place) for place, part in enumerate(reading.take_lost())], schema
    )


def _row(part: LostPart, chain: str, row: int) -> dict[str, object]:
    ts_ns: int | None = fitting(part.ts_ns)
    return {
        "type": "error",
        "chain": chain,
        "file": part.file or "",
        "row": row,
        "ts_ns": ts_ns,
        "time": None if ts_ns is None else ts_ns // 1000,
        "reason": part.text,
        "offset": part.offset,
    }
