"""The pipeline, on DuckDB and on Spark: captures to frames beside tshark, events settled, all jobs from the start.

Only in the last row are the starts of Python, DuckDB and Spark measured, and Spark's first run, in which it compiles.
`PIPELINE_FRAMES` are the numbers of frames: `PIPELINE_FRAMES="1000000 5000000" make bench ONLY=pipeline`, up to 50
million.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bench import recording
from bench.decode import FULL, dissect
from bench.peers import program
from bench.report import SUBJECT, Goal, Missing, Row, in_turns, progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FRAMES = "1000000"
"""Numbers of frames, if the environment has none."""
MOST_FRAMES = 50_000_000
DISSECTED_FRAMES = 1_000_000
"""Frames that tshark dissects, which takes it a quarter of a minute: its rate does not depend on their number."""
BYTES_A_FRAME = 56
"""Bytes of a capture for each of its frames."""
MESSAGES = 200_000
FEW_FRAMES = 200_000
"""Frames of runs that only make Spark compile."""

START_GOAL = Goal(3.0, is_most=True)
TABLE_GOAL = Goal(10.0)
DUCKDB_GOAL = Goal(500.0)
"""Five million frames in ten seconds."""
SPARK_GOAL = Goal(1000.0)

SPARK = "Spark"
TABLES = ("messages", "deliveries", "requests", "connections", "channels", "errors")
CORES = 2
CAPTURES = Path(__file__).parents[1] / "captures"

Engines = dict[str, "SparkSession"]


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield rows of seconds from the start to the first tables, and of frames per second at each size."""
    rounds = min(rounds, 3)
    sizes = [min(int(int(each) * scale), MOST_FRAMES) for each in os.environ.get("PIPELINE_FRAMES", FRAMES).split()]
    with tempfile.TemporaryDirectory() as name:
        try:
            yield from _start(Path(name), rounds)
            with _engines() as engines:
                rate = _tshark(Path(name))
                for frames in sizes:
                    yield from _frames_table(engines, Path(name), frames, rate, rounds)
                    yield from _settled(engines, Path(name), frames, rounds)
        except (ImportError, Missing) as lack:
            yield str(lack)


@contextmanager
def _engines() -> Iterator[Engines]:
    """Start a session of each engine, with two cores, which ends with the measurement."""
    from amqproxy.pipeline import session
    from amqproxy.pipeline.duck import DuckSession

    progress("pipeline: starting Spark")
    conf = {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "16"}
    spark = session.session(f"local[{CORES}]", name="bench", conf=conf)
    try:
        with closing(DuckSession()) as duck:
            duck.database.execute(f"SET threads = {CORES}")
            yield {SUBJECT: cast("SparkSession", duck), SPARK: spark}
    finally:
        session.stop(spark)


# --- all jobs, from the start


def _start(directory: Path, rounds: int) -> Iterator[Row]:
    def run(engine: str) -> float:
        tables = directory / "started"
        shutil.rmtree(tables, ignore_errors=True)
        command = [sys.executable, "-m", "amqproxy", "pipeline", "run", str(CAPTURES), "--tables", str(tables)]
        given = [*command, "--engine", engine]
        return _seconds(
            partial(subprocess.run, given, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        )

    progress("pipeline: all jobs on captures/, from the start")
    run("duckdb")
    figures = {SUBJECT: [run("duckdb") for _ in range(rounds)]}
    note = "seconds until the tables of captures/ are there, by the clock"
    yield Row("Pipeline", "pipeline run captures/", "s", figures, (), START_GOAL, note, less_is_better=True)
    figures[SPARK] = [run("spark")] * rounds
    yield Row("Pipeline", "  and on Spark", "s", figures, (SPARK,), None, note, less_is_better=True)


# --- capture to frames


def _tshark(directory: Path) -> float:
    """Return the frames that tshark writes as JSON in a second of its processor, in thousands; raise `Missing`."""
    from amqproxy.capture.decode import read_decoded
    from amqproxy.capture.decoded import DecodedFrames

    tshark = program("tshark", "tshark")
    path, empty = directory / "dissected.pcap", directory / "empty.pcap"
    recording.write_large(path, DISSECTED_FRAMES * BYTES_A_FRAME, MESSAGES)
    recording.write(empty, 0)
    progress("pipeline: capture to JSON by tshark")
    seconds = dissect(tshark, path, FULL) - dissect(tshark, empty, FULL)
    frames = sum(len(each.frames) for each in read_decoded(path) if isinstance(each, DecodedFrames))
    path.unlink()
    return frames / seconds / 1000


def _frames_table(engines: Engines, directory: Path, frames: int, rate: float, rounds: int) -> Iterator[Row]:
    from amqproxy.pipeline import jobs
    from amqproxy.pipeline.ledger import Ledger

    path, tables = directory / "bench.pcap", directory / "tables"
    progress(f"pipeline: writing a capture of {frames:,} frames")
    recording.write_large(path, frames * BYTES_A_FRAME, min(MESSAGES, frames // 4))
    found = 0

    def ingested(session: SparkSession) -> None:
        """Ingest like `amqproxy pipeline ingest --frames --no-events`."""
        nonlocal found
        shutil.rmtree(tables, ignore_errors=True)
        with Ledger(str(tables)) as ledger:
            new = ledger.find([str(path)]).new
            found = jobs.ingest(session, ledger, new, jobs.Settings(has_frames=True, has_events=False)).rows["frames"]

    progress("pipeline: capture to the table of frames")
    ingested(engines[SUBJECT])
    contenders = {name: partial(_rate, found, partial(ingested, session)) for name, session in engines.items()}
    figures = in_turns(contenders, rounds)
    figures["tshark"] = [rate] * rounds
    size = f"{found:,} frames in one file of {path.stat().st_size / 1e6:,.0f} MB"
    note = f"{size}; by the clock, tshark -T ek in its own processor's seconds"
    path.unlink()
    yield Row("Pipeline", f"ingest --frames, {_millions(frames)}", "1000/s", figures, ("tshark",), TABLE_GOAL, note)


# --- settling


def _settled(engines: Engines, directory: Path, frames: int, rounds: int) -> Iterator[Row]:
    from bench import pipeline_events

    path = directory / "events.parquet"
    pipeline_events.write(path, FEW_FRAMES)
    _settle(engines[SPARK], path)
    progress(f"pipeline: making the events of {frames:,} frames")
    _, events = pipeline_events.write(path, frames)
    jvm = engines[SPARK].sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    by_cpu: dict[str, list[float]] = {name: [] for name in engines}

    def timed(name: str) -> float:
        """Return thousands of frames per second by the clock.

        Those per CPU second of both processes, Python and the JVM, are appended to `by_cpu`.
        """
        began = _processor_seconds(jvm)
        rate = _rate(frames, partial(_settle, engines[name], path))
        by_cpu[name].append(frames / (_processor_seconds(jvm) - began) / 1000)
        return rate

    progress(f"pipeline: settling {frames:,} frames")
    figures = in_turns({name: partial(timed, name) for name in engines}, rounds)
    _check(engines, path)
    note = f"frames that {events:,} events stand for: {events / frames:.2f} of each; all columns of all tables"
    size = _millions(frames)
    yield Row("Pipeline", f"settled, {size}", "1000/s", {SUBJECT: figures[SUBJECT]}, (), DUCKDB_GOAL, note)
    yield Row("Pipeline", f"  on Spark, {size}", "1000/s", {SUBJECT: figures[SPARK]}, (), SPARK_GOAL, note)
    yield Row("Pipeline", f"  by CPU, {size}", "1000/CPU s", by_cpu, (SPARK,), None, "one core's seconds")


def _processor_seconds(pid: int) -> float:
    """Return the CPU seconds of this process and of the JVM."""
    import psutil

    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system) + time.process_time()


@contextmanager
def _settling(session: SparkSession, path: Path) -> Iterator[dict[str, Any]]:
    """Return the rows of all tables; deliveries have their links, which are made of tables on disk."""
    from amqproxy.pipeline import schema
    from amqproxy.pipeline.engine import engine_of
    from amqproxy.pipeline.links import link
    from amqproxy.pipeline.settle import settle

    engine = engine_of(session)
    settled = settle(engine.parquet(schema.EVENTS, [str(path)]), age_ns=0)
    with tempfile.TemporaryDirectory() as directory:
        written = []
        for name in ("messages", "deliveries"):
            columns = schema.TABLES[name]
            engine.write(getattr(settled, name), f"{directory}/{name}", columns)
            written.append(engine.parquet(columns, [f"{directory}/{name}"]))
        linked = link(*written)
        yield {name: getattr(settled, name) for name in TABLES} | {"deliveries": linked.apply(written[1])}
        linked.release()
    settled.release()


def _settle(session: SparkSession, path: Path) -> None:
    """Compute all columns of all tables."""
    with _settling(session, path) as tables:
        for rows in tables.values():
            if hasattr(rows, "batches"):  # DuckDB's
                for _ in rows.batches():
                    pass
            else:
                rows.write.format("noop").mode("overwrite").save()


def _check(engines: Engines, path: Path) -> None:
    """Check that both engines find the same."""
    found = []
    for session in engines.values():
        with _settling(session, path) as tables:
            text = "SELECT count(*) AS n, sum(latency_ns) AS latency, sum(transit_ns) AS transit FROM {rows}"
            found.append(tuple(session.sql(text, rows=tables["deliveries"]).collect()[0]))
    if found[0] != found[1]:
        raise ValueError(f"DuckDB found {found[0]}, Spark {found[1]}")


def _millions(frames: int) -> str:
    return f"{frames / 1e6:g} million"


def _rate(count: int, work: Callable[[], object]) -> float:
    """Return thousands per second by the clock."""
    return count / _seconds(work) / 1000


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
