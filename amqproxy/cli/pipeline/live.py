"""`amqproxy pipeline run --live`: runs until a signal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from amqproxy.cli.failure import INTERRUPTED, MISUSED, Failure
from amqproxy.cli.pipeline.driver import changed, driver, report, sentence, warnings
from amqproxy.cli.pipeline.options import Where
from amqproxy.cli.signals import on_signals

if TYPE_CHECKING:
    from amqproxy.pipeline.jobs import Done, Settings


def watch(captures: Sequence[str], where: Where, settings: Settings, *, interval: float, review: float) -> None:
    """Ingest the closed files of one directory; raise `Failure`."""
    if len(captures) != 1:
        raise Failure("pipeline run --live: name the one directory that a recorder writes to", MISUSED)
    if where.engine == "duckdb":
        raise Failure("pipeline run --live: needs Spark: leave out --engine duckdb", MISUSED)
    if interval <= 0 or review <= 0:
        raise Failure("pipeline run --live: --interval and --review are numbers of seconds above 0", MISUSED)
    directory = Path(captures[0]).absolute()
    if not directory.is_dir():
        raise Failure(f"pipeline run --live: {captures[0]} is not a directory")
    with driver("run --live", replace(where, engine="spark"), None, is_new=True) as running:
        from amqproxy.pipeline.live import Live, Pace

        progress = running.progress

        def on_batch(epoch: int, done: list[Done]) -> None:
            if where.json:
                report(done, json=True)
            else:
                progress.print("; ".join(" ".join(sentence(each).split()) for each in done if each.batch is not None))
                for line in (line for each in done for line in warnings(each)):
                    progress.print(line)

        progress.begin(f"watching {captures[0]}", is_waiting=True)
        progress.print(f"amqproxy: watching {captures[0]}; the tables are in {where.tables}; Ctrl-C ends")
        live = Live(
            running.spark,
            running.ledger,
            str(directory),
            settings,
            Pace(interval=interval, review=review),
            on_batch,
            lambda file: progress.print(changed(file)),
        )
        with on_signals(live.stop, _exit):  # the first ends it after the current batch
            live.run()
        progress.print("amqproxy: stopped; open requests continue on the next run")


def _exit() -> None:
    sys.exit(INTERRUPTED)  # uncommitted work is repeated
