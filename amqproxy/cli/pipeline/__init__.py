"""`amqproxy pipeline`: from captures to tables and answers, on Spark.

    options   the options of several jobs
    driver    the session, the ledger, and errors in words
    task_progress  how far a job is, on a terminal
    live      `run --live`, until a signal
    asking    `ask` and `report`, which read only

Usable by spark-submit, too: `spark-submit …/amqproxy/cli/pipeline/__main__.py run captures/ --tables DIR`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import cyclopts
from cyclopts import Parameter

from amqproxy.cli.pipeline.asking import ask, report
from amqproxy.cli.pipeline.options import DAY, UTC, Age, How, Where, Zone, settings_of

if TYPE_CHECKING:
    from types import ModuleType

    from amqproxy.cli.pipeline.driver import Driver
    from amqproxy.pipeline.jobs import Done

app = cyclopts.App(name="pipeline", help="Make tables of captures on Spark, and ask them. See docs/pipeline.md.")
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
    """Take in captures that are new: the table events, and with --frames also frames.

    What is ingested already is left out, and what is still being written waits until it is closed.

    Parameters
    ----------
    captures
        Captures, directories of them, or patterns.
    events
        Make the table events, of which all others are made; --frames --no-events is for frames alone.
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
    """Find out what became of the events that are new.

    Makes the tables messages, deliveries, requests, connections, channels and errors. What is still open waits for the
    captures that follow.
    """
    settings = settings_of(age=age)
    _work("settle", where, lambda jobs, running: jobs.settle(running.spark, running.ledger, settings))


@app.command
def rollup(*, where: Where = Where()) -> None:  # noqa: B008
    """Count each minute of the hours that have new rows: the table rollup_minute."""
    _work("rollup", where, lambda jobs, running: jobs.rollup(running.spark, running.ledger))


@app.command
def findings(*, where: Where = Where()) -> None:  # noqa: B008
    """Report what an expert would about the hours that have new events: the table findings. See docs/findings.md."""
    _work("findings", where, lambda jobs, running: jobs.findings(running.spark, running.ledger))


@app.command
def anomalies(*, where: Where = Where(), zone: Zone = UTC) -> None:  # noqa: B008
    """Find what is far from what it was at that hour of earlier days: the table anomalies."""
    settings = settings_of(zone=zone)
    _work("anomalies", where, lambda jobs, running: jobs.anomalies(running.spark, running.ledger, settings))


@app.command
def compact(*, where: Where = Where()) -> None:  # noqa: B008
    """Put the small files of each hour together; what the tables contain stays as it is."""
    _work("compact", where, lambda jobs, running: jobs.compact(running.spark, running.ledger))


@app.command
def run(
    *captures: Captures,
    where: Where = Where(),  # noqa: B008
    how: How = How(),  # noqa: B008
    age: Age = DAY,
    zone: Zone = UTC,
    live: Annotated[bool, Parameter(negative="")] = False,
    interval: float = 10,
    review: float = 600,
) -> None:
    """Do all of it: ingest, settle, rollup, findings and anomalies, over what is new.

    With --live it goes on with what a recorder writes into a directory, until Ctrl-C or SIGTERM: a batch of closed
    files at a time, each exactly once, also where it was killed in between.

    Parameters
    ----------
    captures
        Captures, directories of them, or patterns; with --live, one directory.
    live
        Go on with files that are new, until a signal.
    interval
        Live: seconds between two looks for new files.
    review
        Live: seconds between two searches for findings and anomalies, after which small files are put together.
    """
    from amqproxy.cli.pipeline.driver import driver, report

    settings = settings_of(how, age, zone)
    if live:
        from amqproxy.cli.pipeline.live import watch

        watch(captures, where, settings, interval=interval, review=review)
        return
    with driver("run", where, captures) as running:
        from amqproxy.pipeline import jobs

        done = jobs.run(running.spark, running.ledger, running.found.new, settings, running.progress.begin)
    report(done, json=where.json, found=running.found)


def _work(name: str, where: Where, job: Callable[[ModuleType, Driver], Done]) -> None:
    """One of the `jobs`, which are imported here, over what is in the tables."""
    from amqproxy.cli.pipeline.driver import driver, report

    with driver(name, where) as running:
        from amqproxy.pipeline import jobs

        running.progress.begin(name)
        done = job(jobs, running)
    report([done], json=where.json)
