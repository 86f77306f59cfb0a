"""`amqproxy pipeline`: makes tables of captures and answers questions about them, on DuckDB or Spark.

    options        the options of several jobs
    driver         the engine, the ledger, and errors in words
    task_progress  progress of a job
    live           `run --live`, until a signal
    asking         `ask` and `report`, which only read

Also usable by spark-submit: `spark-submit …/amqproxy/cli/pipeline/__main__.py run captures/ --tables DIR`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import cyclopts
from cyclopts import Parameter

from amqproxy.cli.pipeline.asking import ask, report
from amqproxy.cli.pipeline.options import DAY, UTC, WINDOW, Age, How, Where, Window, Zone, settings_of

if TYPE_CHECKING:
    from types import ModuleType

    from amqproxy.cli.pipeline.driver import Driver
    from amqproxy.pipeline.jobs import Done

app = cyclopts.App(name="pipeline", help="Make tables of captures, and query them.")
app.command(ask)
app.command(report)

Captures = Annotated[str, Parameter(allow_leading_hyphen=True)]


@app.command
def ingest(
    *captures: Captures,
    where: Where = Where(),  # noqa: B008 - they are frozen
    how: How = How(),  # noqa: B008
    events: bool = True,
) -> None:
    """Ingest new captures into the table events, and with --frames also into frames.

    Captures that were ingested are skipped; files that are being written wait until they are closed.

    Parameters
    ----------
    captures
        Captures, directories of them, or patterns.
    events
        Make the table events, the source of all others; --frames --no-events makes frames alone.
    """
    from amqproxy.cli.pipeline.driver import driver, report

    settings = settings_of(how, has_events=events)
    with driver("ingest", where, captures) as running:
        from amqproxy.pipeline import jobs

        running.progress.begin("ingest")
        done = jobs.ingest(running.spark, running.ledger, running.found.new, settings)
    report([done], json=where.json, found=running.found)


@app.command
def settle(*, where: Where = Where(), age: Age = DAY) -> None:  # noqa: B008
    """Determine the outcomes of new events.

    Makes the tables messages, deliveries, requests, connections, channels and errors. Open requests wait for later
    captures.
    """
    settings = settings_of(age=age)
    _work("settle", where, lambda jobs, running: jobs.settle(running.spark, running.ledger, settings))


@app.command
def link(*, where: Where = Where(), window: Window = WINDOW) -> None:  # noqa: B008
    """Find the publish of each delivery, across captures and hosts, and how far the clocks of hosts differ.

    Deliveries of earlier runs are linked, too, if their publish came later.
    """
    settings = settings_of(window=window)
    _work("link", where, lambda jobs, running: jobs.link(running.spark, running.ledger, settings))


@app.command
def rollup(*, where: Where = Where()) -> None:  # noqa: B008
    """Count each minute of the hours with new rows: the table rollup_minute."""
    _work("rollup", where, lambda jobs, running: jobs.rollup(running.spark, running.ledger))


@app.command
def findings(*, where: Where = Where()) -> None:  # noqa: B008
    """Find likely mistakes and problems in the hours with new events: the table findings."""
    _work("findings", where, lambda jobs, running: jobs.findings(running.spark, running.ledger))


@app.command
def anomalies(*, where: Where = Where(), zone: Zone = UTC) -> None:  # noqa: B008
    """Find values that are far from those at the same hour of earlier days: the table anomalies."""
    settings = settings_of(zone=zone)
    _work("anomalies", where, lambda jobs, running: jobs.anomalies(running.spark, running.ledger, settings))


@app.command
def compact(*, where: Where = Where()) -> None:  # noqa: B008
    """Merge the small files of each hour; the content of the tables stays the same."""
    _work("compact", where, lambda jobs, running: jobs.compact(running.spark, running.ledger))


@app.command
def run(
    *captures: Captures,
    where: Where = Where(),  # noqa: B008
    how: How = How(),  # noqa: B008
    age: Age = DAY,
    window: Window = WINDOW,
    zone: Zone = UTC,
    live: Annotated[bool, Parameter(negative="")] = False,
    interval: float = 10,
    review: float = 600,
) -> None:
    """Run all jobs on new captures: ingest, settle, link, rollup, findings and anomalies.

    With --live it continues with the files that a recorder writes into a directory, until Ctrl-C or SIGTERM: a batch
    of closed files at a time, each exactly once, even if the process was killed in between.

    Parameters
    ----------
    captures
        Captures, directories of them, or patterns; with --live, one directory.
    live
        Continue with new files, until a signal.
    interval
        Live: seconds between two checks for new files.
    review
        Live: seconds between two times of linking deliveries, and of searching for findings and anomalies, after
        which small files are merged.
    """
    from amqproxy.cli.pipeline.driver import driver, report

    settings = settings_of(how, age, zone, window=window)
    if live:
        from amqproxy.cli.pipeline.live import watch

        watch(captures, where, settings, interval=interval, review=review)
        return
    with driver("run", where, captures) as running:
        from amqproxy.pipeline import jobs

        done = jobs.run(running.spark, running.ledger, running.found.new, settings, running.progress.begin)
    report(done, json=where.json, found=running.found)


def _work(name: str, where: Where, job: Callable[[ModuleType, Driver], Done]) -> None:
    """Run one of the `jobs`, imported here, on the tables."""
    from amqproxy.cli.pipeline.driver import driver, report

    with driver(name, where) as running:
        from amqproxy.pipeline import jobs

        running.progress.begin(name)
        done = job(jobs, running)
    report([done], json=where.json)
