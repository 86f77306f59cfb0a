"""The frames of captures as rows of the table `frames`, in Arrow batches: those of `decode --json`; needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa

from amqproxy.capture.arrow import ROWS, record_batches, schema
from amqproxy.capture.decoded import Decoded, DecodedFrames, StreamEnded
from amqproxy.capture.files import CaptureFile
from amqproxy.capture.share import Share
from amqproxy.pipeline.chain_reading import ChainReading, LostPart
from amqproxy.views.selection import Selection

_ALWAYS = ("type", "chain", "file", "row")
_OWN = [
    pa.field("chain", pa.utf8(), nullable=False),
    pa.field("connection_id", pa.utf8()),
    pa.field("file", pa.utf8(), nullable=False),
    pa.field("row", pa.int64(), nullable=False),
]
_LISTS = pa.list_(pa.field("element", pa.utf8(), nullable=False))


def _column(field: pa.Field) -> pa.Field:
    kind = _LISTS if pa.types.is_list(field.type) else field.type
    return pa.field(field.name, kind, nullable=field.name not in _ALWAYS)


SCHEMA = pa.schema([*map(_column, schema(arguments=True, body=True, dictionaries=False)), *_OWN])
"""The columns of a batch."""

EVERYTHING = Selection()

PLACES = 1 << 20
"""Where packets are shared, rows are numbered by their packet times so many."""


def frame_batches(
    reading: ChainReading,
    files: Sequence[CaptureFile],
    selection: Selection = EVERYTHING,
    *,
    body: int = 0,
    rows: int = ROWS,
    share: Share | None = None,
) -> Iterator[pa.RecordBatch]:
    """The frames of the capture files of a chain, as a `ChainReading` decodes them, and a row for what was lost.

    Rows have the first `body` bytes of body frames, and are numbered in each file. With a `share`, by packets, which is
    the reading's, the numbers only order them.
    """
    decoded = selection.narrowed(selection.connections(reading.decoded(files)))
    for file, of_file in groupby(decoded, lambda _: reading.file):
        numbered = _Numbered(of_file, share)
        row = 0
        for batch in record_batches(numbered, rows=rows, arguments=True, body=body, dictionaries=False):
            count = batch.num_rows
            numbers = np.arange(row, row + count) if share is None else numbered.take(count)
            row += count
            yield _completed(batch, reading, file or "", numbers)
            reading.forget_ended()
        if reading.lost:
            yield _lost(reading, row)
    if reading.lost:
        yield _lost(reading, 0)


class _Numbered:
    """What was decoded, where it is noted which packets the rows are of, if they are shared."""

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
            count = len(each.frames) if isinstance(each, DecodedFrames) else int(not isinstance(each, StreamEnded))
            first = position * PLACES + place
            self._numbers += range(first, first + count)
            place += count
            yield each

    def take(self, count: int) -> list[int]:
        """The numbers of the next rows."""
        taken, self._numbers = self._numbers[:count], self._numbers[count:]
        return taken


def _completed(
    batch: pa.RecordBatch, reading: ChainReading, file: str, numbers: Sequence[int] | np.ndarray
) -> pa.RecordBatch:
    """A batch with the columns of `SCHEMA`."""
    count = batch.num_rows
    streams = batch.column("stream").dictionary_encode()
    ids = pa.array([reading.connection_id(each) for each in streams.dictionary.to_pylist()], pa.utf8())
    own = {
        "chain": pa.repeat(pa.scalar(reading.chain), count),
        "connection_id": ids.take(streams.indices),
        "file": pa.repeat(pa.scalar(file), count),
        "row": pa.array(numbers, pa.int64()),
    }
    columns = {name: batch.column(name) for name in batch.schema.names} | own
    return pa.RecordBatch.from_arrays(
        [
            columns[field.name].cast(field.type) if field.name in columns else pa.nulls(count, field.type)
            for field in SCHEMA
        ],
        schema=SCHEMA,
    )


def _lost(reading: ChainReading, row: int) -> pa.RecordBatch:
    """Rows of type error about what could not be read of files."""
    return pa.RecordBatch.from_pylist(
        [_row(part, reading.chain, row + place) for place, part in enumerate(reading.take_lost())], SCHEMA
    )


def _row(part: LostPart, chain: str, row: int) -> dict[str, object]:
    return {
        "type": "error",
        "chain": chain,
        "file": part.file or "",
        "row": row,
        "ts_ns": part.ts_ns,
        "time": None if part.ts_ns is None else part.ts_ns // 1000,
        "reason": part.text,
        "offset": part.offset,
    }
