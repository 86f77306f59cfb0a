"""The table `frames` as files: Arrow batches → zstd Parquet, by date and hour; needs no Spark.

The decoder's columns are compressed directly, in a thread beside the decoder. Through Spark's rows it takes many times
as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from amqproxy.pipeline import storage
from amqproxy.pipeline.frame_rows import ENCODED

GROUP_ROWS = 262_144
"""Rows collected before they are written; a row group, if all are of one hour."""

MAX_OPEN = 16
"""Maximum number of open hour files; beyond it, the least recently written one is closed."""

SCHEMA = ENCODED.append(pa.field("batch", pa.int64(), nullable=False))
"""Columns of a file."""

_NUMBERS = ("ts_ns", "time", "stream", "row", "delivery_tag")
"""Columns of numbers that rarely repeat but change little from row to row: stored as differences, not by dictionary."""

_LEAVES = [f"{each.name}.list.element" if pa.types.is_list(each.type) else each.name for each in SCHEMA]
_HOUR_US = 3_600_000_000
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


class _Open(NamedTuple):
    """A file that is being written."""

    path: str
    writer: pq.ParquetWriter


class FrameFiles:
    """Writes rows below `root`, a directory or a bucket, as `date=…/hour=…/NAME-N.zstd.parquet`.

    Each row goes to the hour of its time, as a row of the ingest `batch`. Only files returned by `close` are complete.
    `metadata` is added to each file.
    """

    def __init__(self, root: str, name: str, batch: int, metadata: dict[str, str] | None = None) -> None:
        place = storage.place(root)
        self._files, self._root = place.files, place.path
        self._is_remote = storage.is_remote(root)
        self._name = name
        self._batch = batch
        self._metadata = metadata or {}
        self._gathered: dict[int, list[pa.RecordBatch]] = {}
        self._rows = 0
        self._open: dict[int, _Open] = {}
        self._written: list[str] = []
        self._thread = ThreadPoolExecutor(1, "frame-files")
        self._writing: Future[None] | None = None

    def __enter__(self) -> FrameFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(cancel_futures=True)

    def add(self, batch: pa.RecordBatch) -> None:
        """Queue the rows of a batch, with columns `frame_rows.ENCODED`, for writing."""
        for hour, rows in _by_hour(batch):
            self._gathered.setdefault(hour, []).append(rows)
        self._rows += batch.num_rows
        if self._rows >= GROUP_ROWS:
            self._write_gathered()

    def close(self) -> list[str]:
        """Complete the files, and return their paths relative to the root."""
        self._write_gathered()
        self._wait()
        while self._open:
            self._close_oldest()
        return self._written

    def _write_gathered(self) -> None:
        gathered, self._gathered, self._rows = self._gathered, {}, 0
        self._wait()
        if gathered:
            self._writing = self._thread.submit(self._write, gathered)

    def _wait(self) -> None:
        """Wait for the current write, and raise its error."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _write(self, gathered: dict[int, list[pa.RecordBatch]]) -> None:
        for hour, batches in gathered.items():
            rows = pa.Table.from_batches(batches).unify_dictionaries()
            number = pa.repeat(pa.scalar(self._batch, pa.int64()), rows.num_rows)
            rows = rows.append_column(SCHEMA.field("batch"), number)
            self._file_of(hour).writer.write_table(rows, row_group_size=GROUP_ROWS)

    def _file_of(self, hour: int) -> _Open:
        """Return the file of an hour, counted from 1970, and mark it as most recently used."""
        file = self._open.pop(hour, None)
        if file is None:
            if len(self._open) == MAX_OPEN:
                self._close_oldest()
            file = self._opened(hour)
        self._open[hour] = file
        return file

    def _opened(self, hour: int) -> _Open:
        begin = _BEGINNING + timedelta(hours=hour)
        directory = f"date={begin.date()}/hour={begin.hour}"
        if not self._is_remote:
            self._files.create_dir(f"{self._root}/{directory}")
        path = f"{directory}/{self._name}-{len(self._written) + len(self._open)}.zstd.parquet"
        writer = pq.ParquetWriter(
            f"{self._root}/{path}",
            SCHEMA,
            filesystem=self._files,
            compression="zstd",
            use_dictionary=[name for name in _LEAVES if name not in _NUMBERS],
            column_encoding=dict.fromkeys(_NUMBERS, "DELTA_BINARY_PACKED"),
            store_schema=False,  # Arrow's schema: dictionaries are for the file only
        )
        writer.add_key_value_metadata(self._metadata)
        return _Open(path, writer)

    def _close_oldest(self) -> None:
        file = self._open.pop(next(iter(self._open)))
        file.writer.close()
        self._written.append(file.path)


def _by_hour(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each hour in order; rows without a time go to the first hour of 1970."""
    times = batch.column("time").cast(pa.int64())
    hours = times.fill_null(0).to_numpy() // _HOUR_US
    if len(hours) and hours.min() == hours.max():
        yield int(hours[0]), batch
        return
    for hour in np.unique(hours):
        yield int(hour), batch.filter(pa.array(hours == hour))
