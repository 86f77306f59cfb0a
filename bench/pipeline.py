"""The pipeline: a capture to the table of frames beside tshark, and settling beside DuckDB.

Spark's start is not measured, nor its first run, in which it compiles. Writing to disk is measured, except for settled
tables, which are computed and discarded.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import recording
from bench.decode import FULL, dissect
from bench.peers import program
from bench.report import SUBJECT, Goal, Missing, Row, in_turns, progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from amqproxy.pipeline.settle import Settled

MESSAGES = 200_000
CAPTURE_BYTES = 270_000_000
"""Bytes of 4.8 million frames, large enough that the fixed cost of a Spark job, most of a second, matters little."""
FRAMES = 5_000_000
FEW_FRAMES = 200_000
"""Frames of runs that only make Spark compile."""
SCALE = (1_000_000, 5_000_000, 20_000_000, 50_000_000)

TABLE_GOAL = Goal(10.0)
SETTLE_GOAL = Goal(1000.0)
FLAT_GOAL = Goal(1.5, is_most=True)

TABLES = ("messages", "deliveries", "requests", "connections", "channels", "errors")
CORES = 2


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield rows of frames per second: into a table of frames, and settled."""
    rounds = min(rounds, 3)
    with tempfile.TemporaryDirectory() as directory:
        try:
            with _Session() as spark:
                yield from _frames_table(spark, Path(directory), rounds, scale)
                yield from _settled(spark, Path(directory), rounds, scale)
        except (ImportError, Missing) as lack:
            yield str(lack)


def measure_scale(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield rows of the cost per frame, for up to 50 million frames; it runs only if it is named."""
    with tempfile.TemporaryDirectory() as directory, _Session() as spark:
        path = Path(directory, "events.parquet")
        least = math.inf
        for wanted in (FEW_FRAMES, *SCALE):
            frames = int(wanted * scale)
            events = _write_events(path, frames)
            progress(f"pipeline: settling {frames:,} frames")
            seconds = _seconds(partial(_settle, spark, path))
            if wanted == FEW_FRAMES:
                continue
            least = min(least, seconds / frames)
            figures = {SUBJECT: [seconds / frames * 1e9], "least so far": [least * 1e9]}
            note = f"{events:,} events, {events / seconds / 1000:,.0f} thousand a second"
            name = f"a frame, of {frames / 1e6:g} million"
            yield Row("Pipeline", name, "ns", figures, ("least so far",), FLAT_GOAL, note, less_is_better=True)


class _Session:
    """A Spark session with two cores, which ends with the measurement."""

    def __enter__(self) -> SparkSession:
        from amqproxy.pipeline import session, source

        progress("pipeline: starting Spark")
        conf = {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "16"}
        self._spark = session.session(f"local[{CORES}]", name="bench", conf=conf)
        source.register(self._spark)
        return self._spark

    def __exit__(self, *failure: object) -> None:
        from amqproxy.pipeline import session

        session.stop(self._spark)


# --- capture to frames


def _frames_table(spark: SparkSession, directory: Path, rounds: int, scale: float) -> Iterator[Row | str]:
    from amqproxy.pipeline import jobs
    from amqproxy.pipeline.ledger import Ledger

    tshark = program("tshark", "tshark")
    path, empty = directory / "bench.pcap", directory / "empty.pcap"
    progress("pipeline: writing a capture")
    recording.write_large(path, int(CAPTURE_BYTES * scale), int(MESSAGES * min(scale, 1)))
    recording.write(empty, 0)
    tables = directory / "tables"

    def ingested() -> int:
        """Ingest like `amqproxy pipeline ingest --frames --no-events`, and return the number of frames."""
        shutil.rmtree(tables, ignore_errors=True)
        with Ledger(str(tables)) as ledger:
            new = ledger.find([str(path)]).new
            done = jobs.ingest(spark, ledger, new, jobs.Settings(has_frames=True, has_events=False))
        return done.rows["frames"]

    def by_rows() -> None:
        """Ingest like a script that selects columns or its own target."""
        spark.read.format("amqp").load(str(path)).write.mode("overwrite").parquet(str(directory / "frames"))

    progress("pipeline: capture to the table of frames, and by tshark to JSON")
    frames = ingested()
    contenders: dict[str, Callable[[], float]] = {
        "tshark": lambda: frames / (dissect(tshark, path, FULL) - dissect(tshark, empty, FULL)) / 1000,
        SUBJECT: lambda: frames / _seconds(ingested) / 1000,
    }
    figures = in_turns(contenders, min(rounds, 2))  # tshark takes most of a minute
    size = f"{frames:,} frames in one file of {path.stat().st_size / 1e6:,.0f} MB"
    note = f"{size}; by the clock, tshark -T ek in its own processor's seconds"
    yield Row("Pipeline", "ingest --frames --no-events", "1000/s", figures, ("tshark",), TABLE_GOAL, note)
    progress("pipeline: capture to frames by way of Spark's rows")
    figures = {"tshark": figures["tshark"][:1], SUBJECT: [frames / _seconds(by_rows) / 1000]}
    note = 'the same, spark.read.format("amqp").load().write.parquet()'
    yield Row("Pipeline", "capture to frames by Spark's rows", "1000/s", figures, ("tshark",), None, note)


# --- settling


def _settled(spark: SparkSession, directory: Path, rounds: int, scale: float) -> Iterator[Row | str]:
    import duckdb

    from bench import pipeline_events

    path = directory / "events.parquet"
    _write_events(path, FEW_FRAMES)
    _settle(spark, path)
    frames = int(FRAMES * scale)
    events = _write_events(path, frames)
    pid = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    by_cpu: dict[str, list[float]] = {SUBJECT: [], "DuckDB": []}

    def timed(name: str, work: Callable[[], object]) -> float:
        """Return thousands of frames per second by the clock.

        Those per CPU second of both processes, Python and the JVM, are appended to `by_cpu`.
        """
        began = _processor_seconds(pid)
        seconds = _seconds(work)
        by_cpu[name].append(frames / (_processor_seconds(pid) - began) / 1000)
        return frames / seconds / 1000

    with duckdb.connect(config={"threads": CORES}) as database:
        progress("pipeline: settling, beside DuckDB")
        jobs: dict[str, Callable[[], float]] = {
            "DuckDB": lambda: timed("DuckDB", partial(_settle_by_duckdb, database, path)),
            SUBJECT: lambda: timed(SUBJECT, partial(_settle, spark, path)),
        }
        figures = in_turns(jobs, rounds)
        _check(spark, database, path)
    note = f"frames that {events:,} events stand for: {events / frames:.2f} of each; all tables, {frames:,} frames"
    yield Row("Pipeline", "settled", "1000/s", {SUBJECT: figures[SUBJECT]}, (), SETTLE_GOAL, note)
    two = "all tables; DuckDB messages and deliveries, linked"
    yield Row("Pipeline", "settled, DuckDB", "1000/s", figures, ("DuckDB",), None, two)
    yield Row("Pipeline", "settled, by CPU", "1000/CPU s", by_cpu, ("DuckDB",), None, f"{two}; one core's seconds")
    of_publishes = frames * (3 + 1 / pipeline_events.PER_CONFIRM) / pipeline_events.FRAMES_A_MESSAGE
    paired = [of_publishes / _pair(spark, path) / 1000 for _ in range(rounds)]
    note = "publishes and confirms: only which belong together, of the frames that they are"
    yield Row("Pipeline", "paired", "1000/s", {SUBJECT: paired}, (), None, note)


def _processor_seconds(pid: int) -> float:
    """Return the CPU seconds of this process and of the JVM."""
    import psutil

    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system) + time.process_time()


def _write_events(path: Path, frames: int) -> int:
    from bench import pipeline_events

    progress(f"pipeline: making the events of {frames:,} frames")
    return pipeline_events.write(path, frames)[1]


def _settle(spark: SparkSession, path: Path) -> None:
    """Compute all columns of all tables, and the links of deliveries."""
    from amqproxy.pipeline.settle import settle

    settled = settle(spark.read.parquet(str(path)), age_ns=0)
    with _linked(settled) as deliveries:
        for name in TABLES:
            rows = deliveries if name == "deliveries" else getattr(settled, name)
            rows.write.format("noop").mode("overwrite").save()
    settled.release()


@contextmanager
def _linked(settled: Settled) -> Iterator[DataFrame]:
    """Return the deliveries with their links, which are made of tables on disk."""
    from amqproxy.pipeline.links import link

    spark = settled.messages.sparkSession
    with tempfile.TemporaryDirectory() as directory:
        for name in ("messages", "deliveries"):
            getattr(settled, name).write.parquet(f"{directory}/{name}")
        messages, deliveries = (spark.read.parquet(f"{directory}/{name}") for name in ("messages", "deliveries"))
        linked = link(messages, deliveries)
        yield linked.apply(deliveries)
        linked.release()


def _pair(spark: SparkSession, path: Path) -> float:
    """Return the seconds for matching each publish with its confirm, once the connections are known."""
    from amqproxy.pipeline.settle import settle

    settled = settle(spark.read.parquet(str(path)), age_ns=0)
    pairs = settled.messages.select("connection_id", "channel", "epoch", "number", "outcome", "latency_ns")
    seconds = _seconds(pairs.write.format("noop").mode("overwrite").save)
    settled.release()
    return seconds


def _check(spark: SparkSession, database: Any, path: Path) -> None:
    """Check that Spark and DuckDB found the same."""
    from pyspark.sql import functions as sf

    from amqproxy.pipeline.settle import settle

    settled = settle(spark.read.parquet(str(path)), age_ns=0)
    with _linked(settled) as deliveries:
        counted = deliveries.agg(sf.count("*"), sf.sum("latency_ns"), sf.sum("transit_ns")).first()
    settled.release()
    (found,) = database.sql("SELECT count(*), sum(latency_ns), sum(transit_ns) FROM deliveries").fetchall()
    if counted is None or tuple(counted) != tuple(map(int, found)):
        raise ValueError(f"Spark found {counted}, DuckDB {found}")


def _settle_by_duckdb(database: Any, path: Path) -> None:
    database.execute(_SQL.replace("$events", f"read_parquet('{path}')"))


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


_SQL = """
CREATE OR REPLACE TABLE who AS
    SELECT connection_id, "user", virtual_host, client_properties->>'$.connection_name' AS client
    FROM $events WHERE type = 'connection' AND outcome = 'opened';
CREATE OR REPLACE TABLE messages AS
WITH ranges AS (
    SELECT connection_id, channel, epoch, outcome, ts_ns, unnest(coalesce(spans_before, spans)) AS span
    FROM $events WHERE type = 'publishes-settled'
), settled AS (
    SELECT connection_id, channel, epoch, outcome AS became, ts_ns AS became_ns, span.ts_ns AS of_ns,
        unnest(range(span.first, span.last + 1)) AS number
    FROM ranges
)
SELECT p.chain, connection_id, p.connection, who."user", who.client, who.virtual_host, channel, epoch, number, p.ts_ns,
    p.time, p.exchange, p.routing_key, p.mandatory, p.size, p.message_id, p.correlation_id, p.content_type,
    p.delivery_mode, p.priority, p.expiration, p.reply_to, p.message_type, p.app_id, p.headers, p.properties, p.digest,
    p.confirm_tag, coalesce(p.outcome, became) AS outcome, coalesce(p.settled_ns, became_ns) AS settled_ns,
    coalesce(p.settled_ns, became_ns) - p.ts_ns AS latency_ns
FROM (SELECT * FROM $events WHERE type = 'publish') p
LEFT JOIN settled USING (connection_id, channel, epoch, number) LEFT JOIN who USING (connection_id)
WHERE of_ns IS NULL OR of_ns = p.ts_ns;
CREATE OR REPLACE TABLE deliveries AS
WITH ranges AS (
    SELECT connection_id, channel, epoch, outcome, ts_ns, unnest(coalesce(spans_before, spans)) AS span
    FROM $events WHERE type = 'deliveries-settled'
), settled AS (
    SELECT connection_id, channel, epoch, outcome AS became, ts_ns AS became_ns, span.ts_ns AS of_ns,
        unnest(range(span.first, span.last + 1)) AS number
    FROM ranges
), published AS (
    SELECT connection_id AS published_connection_id, channel AS published_channel, epoch AS published_epoch,
        number AS published_number, ts_ns AS published_ns, hash(message_id, size) AS content,
        row_number() OVER (PARTITION BY hash(message_id, size) ORDER BY ts_ns) AS place
    FROM $events WHERE type = 'publish'
), delivered AS (
    SELECT *, hash(message_id, size) AS content,
        row_number() OVER (PARTITION BY hash(message_id, size), queue ORDER BY ts_ns) AS place
    FROM $events WHERE type IN ('deliver', 'get')
)
SELECT d.chain, connection_id, d.connection, who."user", who.client, who.virtual_host, channel, epoch, d.delivery_tag,
    d.type, d.consumer_tag, d.queue, d.redelivered, d.ts_ns, d.time, d.exchange, d.routing_key, d.size, d.message_id,
    d.digest, d.headers, d.properties, coalesce(d.outcome, became) AS outcome,
    coalesce(d.settled_ns, became_ns) AS settled_ns, coalesce(d.settled_ns, became_ns) - d.ts_ns AS latency_ns,
    published_connection_id, published_channel, published_epoch, published_number, published_ns,
    d.ts_ns - published_ns AS transit_ns
FROM delivered d LEFT JOIN settled USING (connection_id, channel, epoch, number)
LEFT JOIN published USING (content, place) LEFT JOIN who USING (connection_id)
WHERE of_ns IS NULL OR of_ns = d.ts_ns;
"""
