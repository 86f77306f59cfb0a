"""`run --live`: Structured Streaming over the directory of a recorder, a batch of closed files at a time.

Spark's checkpoint holds the files of an epoch; the ledger holds the committed captures. So a completed batch is not
repeated, and an interrupted one is done again over its partial output: each row exists exactly once. Nothing is kept in
memory between batches: open requests and the state of connections are on the disk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import msgspec

from amqproxy.pipeline import jobs, storage
from amqproxy.pipeline.jobs import Done, Settings
from amqproxy.pipeline.ledger import PRIVATE, Ledger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

BINARY_FILE = "path STRING, modificationTime TIMESTAMP, length LONG, content BINARY"
"""Columns of Spark's format binaryFile, which a stream must name."""

CLOSED = "*.{pcapng,pcap,cap,pcapng.zst,pcap.zst,pcapng.gz,pcap.gz,pcapng.lz4,pcap.lz4}"
"""Names of complete captures, which recorders rename at the end."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Intervals of live work, in seconds."""

    interval: float = 10
    """Between two checks for new files."""
    files: int = 64
    """Maximum number of files in a batch."""
    review: float = 600
    """Between two linkings, two searches for findings and anomalies, and two compactions."""


OnBatch = Callable[[int, list[Done]], None]
"""Called with the results of an epoch."""


class Live:
    """Ingests the files that a recorder closes, until `stop` is called, from any thread or a signal handler."""

    def __init__(
        self, spark: SparkSession, ledger: Ledger, directory: str, settings: Settings, pace: Pace, on_batch: OnBatch
    ) -> None:
        self._spark = spark
        self._ledger = ledger
        self._directory = directory
        self._settings = settings
        self._pace = pace
        self._on_batch = on_batch
        self._stopped = threading.Event()
        self._reviewed = time.monotonic()
        self._failure: BaseException | None = None

    def stop(self) -> None:
        """End after the current batch."""
        self._stopped.set()

    def run(self) -> None:
        """Run until `stop`, then link and search for findings and anomalies once more; raise a failed batch's error."""
        query = self._start()
        try:
            while query.isActive and not self._stopped.wait(0.2):
                pass
            if query.isActive:
                self._end(query)
            if self._failure is None and (error := query.exception()) is not None:
                raise error
        finally:
            if query.isActive:
                query.stop()
        if self._failure is not None:
            raise self._failure
        self._review()

    def _start(self) -> StreamingQuery:
        checkpoint = storage.spark_path(f"{self._ledger.path}/{PRIVATE}/live")
        files = (
            self._spark.readStream.format("binaryFile")
            .schema(BINARY_FILE)
            .option("pathGlobFilter", CLOSED)
            .option("maxFilesPerTrigger", self._pace.files)
            .option("maxFileAge", "3650d")  # late files count too
            .load(storage.spark_path(self._directory))
            .select("path")  # the path alone, so that Spark does not read the content
        )
        return (
            files.writeStream.foreachBatch(self._batch)
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime=f"{int(self._pace.interval * 1000)} milliseconds")
            .start()
        )

    def _end(self, query: StreamingQuery) -> None:
        """Stop between two batches; stopping within one would only leave it for the next run."""
        while (
            query.isActive
            and query.status["isTriggerActive"]
            and query.status["message"] != "Waiting for data to arrive"
        ):
            time.sleep(0.05)
        query.stop()

    def _batch(self, rows: DataFrame, epoch: int) -> None:
        try:
            self._take(rows, epoch)
        except BaseException as error:
            self._failure = error  # Spark would only pass on its text
            raise

    def _take(self, rows: DataFrame, epoch: int) -> None:
        # An interrupted epoch is repeated: captures that the ledger has are not new, the others are still to be
        # ingested.
        found = self._ledger.find(sorted(_local(row.path) for row in rows.collect()))
        done = [
            jobs.ingest(self._spark, self._ledger, found.new, self._settings),
            jobs.settle(self._spark, self._ledger, self._settings),
            jobs.rollup(self._spark, self._ledger),
        ]
        if time.monotonic() - self._reviewed >= self._pace.review:
            done += self._review()
        self._on_batch(epoch, done)

    def _review(self) -> list[Done]:
        self._reviewed = time.monotonic()
        return [
            jobs.link(self._spark, self._ledger, self._settings),
            jobs.rollup(self._spark, self._ledger),
            jobs.findings(self._spark, self._ledger),
            jobs.anomalies(self._spark, self._ledger, self._settings),
            jobs.compact(self._spark, self._ledger),
        ]


def _local(path: str) -> str:
    """Return a path as in the ledger; Spark's paths are URLs."""
    return unquote(urlsplit(path).path) if path.startswith("file:") else path
