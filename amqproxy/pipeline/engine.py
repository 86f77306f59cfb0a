"""Interface of the engines besides SQL: reading captures and files, writing files, and spreading work over cores.

`DuckSession` is one itself; a `SparkSession` is wrapped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from amqproxy.pipeline import storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from amqproxy.pipeline.source import CapturePartition

Work: TypeAlias = "Callable[[Iterable[CapturePartition]], Iterator[str]]"
"""Yields the files that it makes of parts of captures."""


@runtime_checkable
class Engine(Protocol):
    """The engine of a session or of rows."""

    def captures(self, files: Sequence[str], options: Mapping[str, str]) -> DataFrame:
        """Return the rows of captures; `options` are those of the data source `amqp`."""

    def parquet(self, columns: StructType | None, paths: Sequence[str], table: str | None = None) -> DataFrame:
        """Return these columns of Parquet files, or of directories of them; a missing column is null.

        Files of the directory `table` also have the columns in the names of its directories, such as `hour=7`. Without
        `columns`, all columns of all files are read.
        """

    def write(self, rows: DataFrame, path: str, columns: StructType, partitions: Sequence[str] = ()) -> None:
        """Write rows as Parquet below `path`, which is replaced, a directory for each value of `partitions`.

        The order of the rows stays.
        """

    def spread(self, work: Work, tasks: Sequence[CapturePartition]) -> list[str]:
        """Run the work of the tasks on all cores, and return the files that it yields."""

    def size(self, rows: DataFrame) -> int:
        """Return the estimated number of bytes that partitions would exchange; 0 if there are no partitions."""

    def progress(self) -> tuple[int, int] | None:
        """Return the numbers of finished tasks and of all tasks under way, for any thread; `None` if unknown."""

    def free(self, rows: DataFrame) -> None:
        """Free the memory of rows that `localCheckpoint` returned."""


def engine_of(value: DataFrame | SparkSession) -> Engine:
    """Return the engine of a session or of rows."""
    session: Any = getattr(value, "sparkSession", value)
    return session if isinstance(session, Engine) else SparkEngine(session)


class SparkEngine:
    """The engine of a Spark session."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def captures(self, files: Sequence[str], options: Mapping[str, str]) -> DataFrame:
        from amqproxy.pipeline import source

        source.register(self._session)
        return self._session.read.format(source.NAME).options(**options).load(list(files))

    def parquet(self, columns: StructType | None, paths: Sequence[str], table: str | None = None) -> DataFrame:
        reader = self._session.read
        reader = reader.option("mergeSchema", "true") if columns is None else reader.schema(columns)
        if table is not None:
            reader = reader.option("basePath", storage.spark_path(table))
        return reader.parquet(*map(storage.spark_path, paths))

    def write(self, rows: DataFrame, path: str, columns: StructType, partitions: Sequence[str] = ()) -> None:
        writer = rows.write.mode("overwrite").partitionBy(*partitions).option("compression", "zstd")
        writer.parquet(storage.spark_path(path))

    def spread(self, work: Work, tasks: Sequence[CapturePartition]) -> list[str]:
        spark = self._session.sparkContext
        return spark.parallelize(tasks, len(tasks) or 1).mapPartitions(work).collect()

    def size(self, rows: DataFrame) -> int:
        return int(rows._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())

    def progress(self) -> tuple[int, int] | None:
        done = total = 0
        with suppress(Exception):  # the session may end meanwhile
            tracker = self._session.sparkContext.statusTracker()
            for stage in tracker.getActiveStageIds():
                if (info := tracker.getStageInfo(stage)) is not None:
                    done, total = done + info.numCompletedTasks, total + info.numTasks
        return (done, total) if total else None

    def free(self, rows: DataFrame) -> None:
        rows._jdf.queryExecution().logical().rdd().unpersist(False)
