"""`run --live`: Structured Streaming over the directory that a recorder writes, a batch of closed files at a time.

Spark's checkpoint says which files an epoch has; the ledger says which captures are committed. So a batch that was done
is not done again, and one that was cut off is done anew, over what it had written: each row is there exactly once.
Between batches nothing is kept in memory: what is open, and the state of connections, are on the disk.
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
"""The columns of Spark's format binaryFile, which a stream of it has to name."""

CLOSED = "*.{pcapng,pcap,cap,pcapng.zst,pcap.zst,pcapng.gz,pcap.gz,pcapng.lz4,pcap.lz4}"
"""What a capture is called once it is complete: recorders rename it last."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How often what is done; in seconds."""

    interval: float = 10
    """Between two looks for new files."""
    files: int = 64
    """That a batch takes at most."""
    review: float = 600
    """Between two searches for findings and anomalies, and two compactions."""


OnBatch = Callable[[int, list[Done]], None]
"""Is called with what was done in an epoch."""


class Live:
    """Takes in what a recorder closes, until `stop` is called, from any thread or a signal handler."""

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
        """End after the batch that is being worked on."""
        self._stopped.set()

    def run(self) -> None:
        """Work until `stop`; then look for findings and anomalies once more. Raises what a batch failed with."""
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
            .option("maxFileAge", "3650d")  # late files are files, too
            .load(storage.spark_path(self._directory))
            .select("path")  # and so not what is in them: Spark does not read it
        )
        return (
            files.writeStream.foreachBatch(self._batch)
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime=f"{int(self._pace.interval * 1000)} milliseconds")
            .start()
        )

    def _end(self, query: StreamingQuery) -> None:
        """Stop between two batches: to stop in one would be no harm, but a batch more to do next time."""
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
        # An epoch that was cut off comes again: what of it the ledger has is not new, and the rest is still to be done.
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
            jobs.findings(self._spark, self._ledger),
            jobs.anomalies(self._spark, self._ledger, self._settings),
            jobs.compact(self._spark, self._ledger),
        ]


def _local(path: str) -> str:
    """A path as the ledger has it: Spark's are URLs."""
    return unquote(urlsplit(path).path) if path.startswith("file:") else path
