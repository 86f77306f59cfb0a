"""Runs of the `queue` commands: signals, progress, result and exit code around the workbench."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from amqproxy.cli.failure import FAILED, INTERRUPTED, MISUSED, Failure
from amqproxy.cli.progress import ERASE, INTERVAL, is_terminal
from amqproxy.cli.queue_options import Chosen, Noted, Reached, bench_queue, end_of
from amqproxy.cli.queue_text import before_lines, progress_line, result_lines, shown
from amqproxy.cli.signals import on_signals

if TYPE_CHECKING:
    from amqproxy.workbench.audit import Audit
    from amqproxy.workbench.destination import Destination
    from amqproxy.workbench.disturbance import Disturbance
    from amqproxy.workbench.held_message import HeldMessage
    from amqproxy.workbench.move import Change
    from amqproxy.workbench.queue_facts import QueueFacts
    from amqproxy.workbench.run_report import RunReport
    from amqproxy.workbench.runs import Bench, CanStop, RunPlan, Told

LINE_INTERVAL = 10.0
"""Seconds between two lines of progress where standard error is not a terminal."""


class RunDisplay:
    """Standard error of a run: what it does to the queue, progress and warnings."""

    def __init__(self) -> None:
        self.running: CanStop | None = None
        self._is_terminal = is_terminal(sys.stderr)
        self._last = time.monotonic()

    def told(self) -> Told:
        """Return the functions that the workbench calls."""
        from amqproxy.workbench.runs import Told

        return Told(before=self._before, begun=self.begin, progress=self._progress, warn=self.warn)

    def begin(self, running: CanStop) -> None:
        """Remember the run that a signal stops."""
        self.running = running

    def warn(self, text: str) -> None:
        """Print a line."""
        self.clear()
        print(f"amqproxy: {shown(text)}", file=sys.stderr)

    def clear(self) -> None:
        """Erase the line of progress."""
        if self._is_terminal:
            sys.stderr.write(ERASE)
            sys.stderr.flush()

    def _before(self, facts: QueueFacts, disturbance: Disturbance) -> None:
        for line in before_lines(facts, disturbance):
            print(f"amqproxy: {line}", file=sys.stderr)

    def _progress(self, report: RunReport) -> None:
        now = time.monotonic()
        if now - self._last < (INTERVAL if self._is_terminal else LINE_INTERVAL):
            return
        self._last = now
        line = progress_line(report)
        if self._is_terminal:
            sys.stderr.write(f"{ERASE}{line[: shutil.get_terminal_size().columns - 1]}")
            sys.stderr.flush()
        else:
            print(f"amqproxy: {line}", file=sys.stderr)


Work = Callable[["Bench", "Told", "Audit | None", "RunReport"], Awaitable[None]]


def run(
    broker: str,
    queue: str,
    reached: Reached,
    plan: RunPlan,
    facts: dict[str, Any],
    work: Work,
    display: RunDisplay,
) -> RunReport:
    """Work on a queue; return the report. A signal ends it after the current batch, the next one at once."""
    import trio

    from amqproxy.configuration.config import ConfigError
    from amqproxy.moving.message_forwarder import MoveFailed
    from amqproxy.workbench.batch_journal import QueueBusy
    from amqproxy.workbench.disturbance import Disturbed
    from amqproxy.workbench.run_report import RunReport
    from amqproxy.workbench.runs import noted, opened

    where = f"queue {plan.command}"
    bench_at = bench_queue(broker, queue, reached, where)
    report = RunReport(queue=queue)
    facts = {"broker": bench_at.broker, "user": bench_at.end.user, "vhost": bench_at.vhost, "queue": queue, **facts}
    scope = trio.CancelScope()

    async def main() -> None:
        token = trio.lowlevel.current_trio_token()

        def first() -> None:
            if display.running is None:
                then()
                return
            display.running.stop()
            display.warn("ending after the current batch; once more to end at once")

        def then() -> None:
            token.run_sync_soon(scope.cancel)

        with on_signals(first, then), scope:
            async with noted(plan, report, facts) as audit, opened(bench_at) as bench:
                await work(bench, display.told(), audit, report)
        report.is_interrupted = report.is_interrupted or scope.cancelled_caught

    try:
        trio.run(main)
    except (Disturbed, QueueBusy) as error:
        raise Failure(f"{where}: {error}", MISUSED if isinstance(error, Disturbed) else FAILED) from None
    except MoveFailed as error:  # the audit cannot be begun
        raise Failure(f"{where}: {error}") from None
    except ConfigError as error:
        raise Failure(f"{where}: --ca: {error}", MISUSED) from None
    except BrokenPipeError:
        raise  # the reader of the output has gone: an exit code of its own
    except OSError as error:
        raise Failure(f"{where}: {error.filename or ''}: {error.strerror}") from None
    finally:
        display.clear()
    return report


def conclude(plan: RunPlan, report: RunReport, *, is_json: bool) -> None:
    """Print the result, and raise `Failure` if something was left."""
    if is_json:
        print(msgspec.json.encode(report).decode())
    else:
        for line in result_lines(report):
            print(line)
    sys.stdout.flush()
    check(plan, report)


def check(plan: RunPlan, report: RunReport) -> None:
    """Raise `Failure` unless the run has done all that it was asked for."""
    where = f"queue {plan.command}"
    if report.failure:
        raise Failure(f"{where}: {shown(report.failure)}")
    if report.is_interrupted:
        raise Failure(f"{where}: interrupted; the messages that were not done are in the queue", INTERRUPTED)
    if not report.is_complete:
        raise Failure(f"{where}: not all was done: see above")


def plan_of(command: str, chosen: Chosen, noted: Noted | None, *, position: int = 0) -> RunPlan:
    """Return the plan of a command; without `noted`, it leaves no trace."""
    from amqproxy.workbench.runs import RunPlan

    file = None if noted is None else noted.file
    return RunPlan(
        command=command,
        selection=chosen.selection(position),
        state=None if file is None else file.parent,
        audit=file,
        is_dry_run=noted is not None and noted.dry_run,
    )


def move_messages(
    command: str,
    broker: str,
    queue: str,
    destination: Destination,
    reached: Reached,
    chosen: Chosen,
    noted: Noted,
    *,
    to: str | None = None,
    change: Change | None = None,
    note: Callable[[Audit | None, HeldMessage], None] = lambda audit, message: None,
) -> None:
    """Run a command that publishes messages: `move`, `requeue` or `edit`."""
    from amqproxy.workbench.runs import move

    plan = plan_of(command, chosen, noted)
    end, vhost = (None, None) if to is None else end_of(to, reached, f"queue {command}: --to")
    facts: dict[str, Any] = {"to": destination.text, "where": chosen.where, "limit": chosen.limit}
    if end is not None:
        facts |= {"to_broker": end.upstream.address, "to_vhost": vhost}
    display = RunDisplay()

    async def work(bench: Bench, told: Told, audit: Audit | None, report: RunReport) -> None:
        await move(
            bench,
            destination,
            plan,
            told,
            report,
            change=change,
            note=lambda message: note(audit, message),
            end=end,
            vhost=vhost,
        )

    report = run(broker, queue, reached, plan, facts, work, display)
    conclude(plan, report, is_json=noted.json)
