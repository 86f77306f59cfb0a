"""`run --live`: Structured Streaming over the directory of a recorder, a batch of closed files at a time.

Spark's checkpoint holds the names that began an epoch; the ledger holds the committed captures. So a completed batch is
not repeated, and an interrupted one is done again over its partial output: each row exists exactly once. Nothing is
kept in memory between batches: open requests and the state of connections are on the disk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from amqproxy.capture.files import PARTIAL
from amqproxy.capture.warnings import CaptureError
from amqproxy.pipeline import jobs, storage
from amqproxy.pipeline.chains import COMPRESSED, capture_name, chains, find
from amqproxy.pipeline.jobs import Done, Settings
from amqproxy.pipeline.ledger import PRIVATE, Ledger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

BINARY_FILE = "path STRING, modificationTime TIMESTAMP, length LONG, content BINARY"
"""Columns of Spark's format binaryFile, which a stream must name."""

CAPTURES = "*.{pcapng,pcap,cap}*"
"""Names of captures, as a pattern of Hadoop's: also `x.pcap1` of tcpdump, and `x.pcapng.zst`."""


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

OnChanged = Callable[[str], None]
"""Called once for each capture that has changed since it was ingested."""


class Live:
    """Ingests the files that a recorder closes, until `stop` is called, from any thread or a signal handler."""

    def __init__(
        self,
        spark: SparkSession,
        ledger: Ledger,
        directory: str,
        settings: Settings,
        pace: Pace,
        on_batch: OnBatch,
        on_changed: OnChanged,
    ) -> None:
        self._spark = spark
        self._ledger = ledger
        self._directory = directory
        self._settings = settings
        self._pace = pace
        self._on_batch = on_batch
        self._on_changed = on_changed
        self._changed: set[str] = set()
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
            .option("pathGlobFilter", CAPTURES)
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
            self._take(epoch)
        except BaseException as error:
            self._failure = error  # Spark would only pass on its text
            raise

    def _take(self, epoch: int) -> None:
        # An interrupted epoch is repeated: captures that the ledger has are not new, the others are still to be
        # ingested. An epoch has as many new names; what these close may be other files.
        files = _captures_in(self._directory)
        found = self._ledger.find(files)
        closed = closed_captures(files)
        new = [file for file in found.new if file in closed][: self._pace.files]
        for file in found.changed:
            if file not in self._changed:
                self._changed.add(file)
                self._on_changed(file)
        done = [
            jobs.ingest(self._spark, self._ledger, new, self._settings),
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


def _captures_in(directory: str) -> list[str]:
    """Return the captures of a directory in the order of their names."""
    try:
        return find(directory)
    except CaptureError:  # there are none
        return []


def closed_captures(files: Sequence[str]) -> frozenset[str]:
    """Return the captures that their writers have closed.

    This proxy's recorder renames them then; tcpdump and dumpcap write the latest file of a ring.
    """
    written = set()
    for chain in chains(files):
        is_ring = len(chain.files) > 1 or capture_name(chain.files[0]) != chain.name
        latest = max(chain.files, key=_modified_ns)
        if is_ring and not chain.is_recording and not latest.endswith(COMPRESSED):
            written.add(latest)
    return frozenset(file for file in files if file not in written and not file.endswith(PARTIAL))


def _modified_ns(file: str) -> int:
    try:
        return storage.state_of(file).modified_ns
    except OSError:  # removed or compressed meanwhile
        return 0
