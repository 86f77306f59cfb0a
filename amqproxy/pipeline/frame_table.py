"""Captures → the table `frames`: the engine distributes them, and each of its tasks writes its own files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql.types import StructType

from amqproxy.pipeline import storage
from amqproxy.pipeline.chains import chains
from amqproxy.pipeline.engine import engine_of
from amqproxy.pipeline.frame_files import FrameFiles
from amqproxy.pipeline.schema import FRAMES, STORED
from amqproxy.pipeline.source import CapturePartition, SourceOptions, frames_of, partitions_of, parts_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from amqproxy.pipeline.ledger import Ledger

BATCH_ROWS = 65_536
"""Rows that are decoded at a time."""

METADATA = {"org.apache.spark.sql.parquet.row.metadata": StructType([*FRAMES.fields, STORED["batch"]]).json()}
"""Parquet metadata with the column comments for Spark."""


def stage_frames(spark: SparkSession, ledger: Ledger, files: Sequence[str], **options: Any) -> None:
    """Write the frames of captures for the ledger's next batch; `options` are those of the source.

    A retried task writes other files, so that only files of completed tasks count.
    """
    chosen = SourceOptions(paths=tuple(files), **options)
    partitions = partitions_of(parts_of(chains(files, chosen.chains), chosen))  # type: ignore[arg-type]
    root = storage.absolute(f"{ledger.path}/{ledger.staging('frames')}")  # executors have other working directories
    written = engine_of(spark).spread(partial(_write, chosen, root, ledger.next_batch), partitions)
    ledger.only_complete("frames", written)


def _write(options: SourceOptions, root: str, batch: int, partitions: Iterable[CapturePartition]) -> Iterator[str]:
    """Run a task: write its partitions, and yield the paths of the files."""
    with FrameFiles(root, uuid4().hex, batch, METADATA) as files:
        for partition in partitions:
            for part in partition.parts:
                for rows in frames_of(part, options, rows=BATCH_ROWS, dictionaries=True):
                    files.add(rows)
        return iter(files.close())
