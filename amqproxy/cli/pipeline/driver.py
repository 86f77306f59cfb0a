"""Common parts of all command-line jobs: the engine, the ledger, and errors in words."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.pipeline.options import LARGE_BYTES
from amqproxy.cli.pipeline.task_progress import TaskProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from amqproxy.cli.pipeline.options import Engine, Where
    from amqproxy.pipeline.jobs import Done
    from amqproxy.pipeline.ledger import Found, Ledger


MAX_WARNINGS = 10
"""Maximum number of warnings about captures that a run prints."""


class EngineFailed(Exception):
    """Raised if Spark or DuckDB fails a job, with the reason."""


class Driver(NamedTuple):
    """Resources of a job."""

    spark: SparkSession
    ledger: Ledger
    progress: TaskProgress
    found: Found


@contextmanager
def driver(
    command: str, where: Where, captures: Sequence[str] | None = None, *, is_new: bool = False
) -> Iterator[Driver]:
    """Lock the tables, find the `captures` that they do not contain, and start the engine; raise `Failure`.

    A job without captures works on the existing tables.
    """
    _check(command, where)
    with errors(command, where.tables), TaskProgress() as progress:
        from amqproxy.pipeline.ledger import Found, Ledger, contents

        if captures is None and not is_new and not contents(where.tables).batch:
            raise Failure(
                f"pipeline {command}: no tables in {where.tables}: make them with `amqproxy pipeline ingest`, "
                "or name them with --tables"
            )
        if captures is not None and not captures:
            raise Failure(f"pipeline {command}: name captures, or directories of them", MISUSED)
        with Ledger(where.tables) as ledger:
            found = Found([], [], 0, 0)
            if captures is not None:
                found = _find(command, ledger, captures, progress)
            engine = _engine(where, found.new, progress)
            with session(progress, where, captures or (), engine, ledger.scratch) as spark:
                yield Driver(spark, ledger, progress, found)


def _check(command: str, where: Where) -> None:
    """Raise `Failure` if the options are for different engines."""
    if where.engine == "duckdb" and (where.master is not None or where.ui):
        raise Failure(
            f"pipeline {command}: --master and --ui are for Spark: leave them out with --engine duckdb", MISUSED
        )


def _engine(where: Where, captures: Sequence[str], progress: TaskProgress) -> Engine:
    """Return the engine of the options, or for a job of this size."""
    if where.engine is not None:
        return where.engine
    if where.master is not None or where.ui or "PYSPARK_GATEWAY_PORT" in os.environ:  # which spark-submit sets
        return "spark"
    from amqproxy.pipeline import storage

    size = sum(storage.state_of(each).size for each in captures)
    if size <= LARGE_BYTES:
        return "duckdb"
    progress.print(f"amqproxy: {size / 10**9:,.0f} GB of new captures: on Spark; --engine duckdb works without")
    return "spark"


@contextmanager
def session(
    progress: TaskProgress, where: Where, captures: Sequence[str], engine: Engine, scratch: str | None
) -> Iterator[SparkSession]:
    """Start Spark, or use the session of spark-submit, and stop it at the end; or open one of DuckDB in its place.

    `scratch` is where DuckDB has temporary files.
    """
    if engine == "duckdb":
        with _duckdb_session(progress, scratch) as opened:
            yield opened
        return
    progress.begin("starting Spark")
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from amqproxy.pipeline import session as sessions
    from amqproxy.pipeline import storage

    is_submitted = sessions.is_submitted()
    is_ours = not sessions.is_running()
    master = where.master or (None if is_submitted else sessions.LOCAL)
    spark = sessions.session(master, has_ui=where.ui, conf=storage.spark_settings(where.tables, *captures))
    try:
        progress.begin("", spark)
        if (address := spark.sparkContext.uiWebUrl) is not None:
            progress.print(f"Spark's UI: {address}")
        yield spark
    except (PySparkException, Py4JError) as error:
        raise EngineFailed(explained(error)) from None  # here, while Spark can still explain it
    finally:
        if is_submitted:
            spark.stop()
        elif is_ours:
            progress.begin("ending Spark")
            sessions.stop(spark)


@contextmanager
def _duckdb_session(progress: TaskProgress, scratch: str | None) -> Iterator[SparkSession]:
    from concurrent.futures.process import BrokenProcessPool

    import duckdb
    from pyarrow.lib import ArrowException

    from amqproxy.pipeline.duck import DuckSession

    opened = DuckSession(scratch)
    try:
        session = cast("SparkSession", opened)  # it has the part of one that the jobs use
        progress.begin("", session)
        yield session
    except duckdb.Error as error:
        raise EngineFailed(next(iter(str(error).splitlines()), "")) from None
    except ArrowException as error:
        if type(error) is not ArrowException:
            raise
        raise EngineFailed(str(error)) from None  # of the system, such as a thread for which there is no memory
    except BrokenProcessPool:
        raise EngineFailed("a process that read captures was killed, perhaps for lack of memory") from None
    finally:
        opened.close()


@contextmanager
def errors(command: str, tables: str) -> Iterator[None]:
    """Turn errors of the tables and of Spark into `Failure`, in words."""
    name = f"pipeline {command}"
    try:
        from amqproxy.capture.warnings import CaptureError
        from amqproxy.pipeline.ledger import LedgerError
        from amqproxy.pipeline.session import SparkUnavailable
    except ImportError as error:
        raise Failure(f"{name}: {error}", MISUSED) from None
    try:
        yield
    except (LedgerError, SparkUnavailable, EngineFailed, CaptureError) as error:
        raise Failure(f"{name}: {error}") from None
    except OSError as error:
        where = error.filename or tables
        raise Failure(f"{name}: {where}: {error.strerror or error}") from None


def explained(error: BaseException) -> str:
    """Return the cause of a Spark exception in a line: the last exception in its text."""
    text = _text(error)
    for cause, said in _CAUSES.items():
        if cause in text:
            return said
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line.partition("Caused by: ")[2] for line in lines if line.startswith("Caused by: ")]
    raised = [line for line in lines if _is_python_error(line)]
    return (raised or causes or lines or [type(error).__name__])[-1]


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except AssertionError:  # Spark asks its JVM, which has ended
        return str(getattr(error, "_desc", "") or type(error).__name__)


_CAUSES = {
    "No space left on device": "no space left on the disk; uncommitted files are removed on the next run",
    "Java heap space": "Spark had too little memory: set SPARK_DRIVER_MEMORY=8g, or take fewer files at a time",
}


def _is_python_error(line: str) -> bool:
    name, colon, _ = line.partition(": ")
    return bool(colon) and name.isidentifier() and name.endswith(("Error", "Exception"))


def _find(command: str, ledger: Ledger, captures: Sequence[str], progress: TaskProgress) -> Found:
    """Return the new captures; warn of ingested captures that have changed, and raise `Failure` if there are none."""
    from amqproxy.pipeline import storage
    from amqproxy.pipeline.jobs import new_captures

    found = new_captures(ledger, captures)
    for file in found.changed:
        progress.print(changed(file))
    if not found.new and not found.known:
        reason = f"{found.partial} still being written" if found.partial else "there are none"
        raise Failure(f"pipeline {command}: no captures in {', '.join(captures)}: {reason}")
    for file in found.new:
        if not storage.is_remote(file):
            with Path(file).open("rb"):
                pass  # reported by name, before any work is done
    return found


def changed(file: str) -> str:
    """Return the warning about a capture that has changed since it was ingested."""
    return (
        f"amqproxy: {file} has changed since it was ingested: its new content is left out. "
        "Ingest it into other tables, or under another name"
    )


def report(done: Sequence[Done], *, json: bool, found: Found | None = None) -> None:
    """Print the results of jobs: a line each, or JSON."""
    import msgspec

    for each in done:
        if json:
            sys.stdout.write(msgspec.json.encode(_summary(each, found)).decode() + "\n")
        else:
            sys.stdout.write(f"{sentence(each, found)}\n")
    sys.stdout.flush()
    for each in done:
        for line in warnings(each):
            print(line, file=sys.stderr)


def _summary(done: Done, found: Found | None) -> dict[str, Any]:
    summary: dict[str, Any] = {"job": done.job, "batch": done.batch, "rows": done.rows}
    if done.job == "ingest":
        summary["captures"] = done.captures
        if done.again:
            summary["again"] = done.again
        if done.lost:
            summary["lost"] = [{"file": each.file, "kind": each.kind, "text": each.text} for each in done.lost]
        if found is not None:
            summary |= {"known": found.known, "partial": found.partial, "changed": found.changed}
    return summary


def warnings(done: Done) -> list[str]:
    """Return a line for each of the first captures that could not be read completely."""
    from amqproxy.taps.text import printable

    lines = [printable(f"amqproxy: {each.file}: {each.text}") for each in done.lost[:MAX_WARNINGS]]
    if (more := len(done.lost) - len(lines)) > 0:
        lines.append(f"amqproxy: {more:,} more could not be read in whole: see `amqproxy pipeline ask errors`")
    return lines


def sentence(done: Done, found: Found | None = None) -> str:
    """Describe the result of a job in a sentence."""
    if done.batch is None:
        known = f": all {found.known} captures are in already" if done.job == "ingest" and found is not None else ""
        return f"{done.job:9}  nothing new{known}"
    rows = ", ".join(f"{count:,} {name}" for name, count in done.rows.items() if count) or "no rows"
    captures = f"{done.captures} capture{'' if done.captures == 1 else 's'}: " if done.captures else ""
    if done.again:
        rows += f"; {len(done.again)} chain{'' if len(done.again) == 1 else 's'} read again for late captures"
    files = f" in place of {done.removed} files" if done.job == "compact" else ""
    return f"{done.job:9}  {captures}{rows}{files}"
