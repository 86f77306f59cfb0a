"""`amqproxy queue drain` and `fill`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from amqproxy.cli.queue_options import Chosen, Noted, Reached
from amqproxy.cli.queue_runs import RunDisplay, conclude, plan_of, run

if TYPE_CHECKING:
    from amqproxy.workbench.audit import Audit
    from amqproxy.workbench.destination import Destination
    from amqproxy.workbench.run_report import RunReport
    from amqproxy.workbench.runs import Bench, Told


def drain_messages(broker: str, queue: str, file: Path, reached: Reached, chosen: Chosen, noted: Noted) -> None:
    """Take messages out of a queue into a file."""
    from amqproxy.workbench.drain_file import drain_into
    from amqproxy.workbench.runs import look_through

    plan = plan_of("drain", chosen, noted)

    async def work(bench: Bench, told: Told, audit: Audit | None, report: RunReport) -> None:
        report.to = str(file)
        action = drain_into(file, queue, bench.queue.vhost, is_dry_run=plan.is_dry_run)
        try:
            await look_through(bench, action, plan, told, report)
        finally:
            action.close()

    facts: dict[str, Any] = {"to": str(file), "where": chosen.where, "limit": chosen.limit}
    report = run(broker, queue, reached, plan, facts, work, RunDisplay())
    conclude(plan, report, is_json=noted.json)


def fill_queue(
    broker: str,
    queue: str,
    file: Path,
    destination: Destination,
    reached: Reached,
    chosen: Chosen,
    noted: Noted,
    position: int,
) -> None:
    """Publish the messages of a file."""
    from amqproxy.workbench.drain_file import CAPTURES
    from amqproxy.workbench.fill import Filling, messages_of_lines
    from amqproxy.workbench.message_capture import CapturedMessages

    plan = plan_of("fill", chosen, noted, position=position)
    display = RunDisplay()

    async def work(bench: Bench, told: Told, audit: Audit | None, report: RunReport) -> None:
        captured = CapturedMessages(file) if file.suffix in CAPTURES else None
        filling = Filling()
        told.begun(filling)
        messages = messages_of_lines(file) if captured is None else captured
        await filling.run(bench, destination, messages, plan, told, report)
        if captured is not None:
            captured.check()

    facts: dict[str, Any] = {"from": str(file), "to": destination.text, "where": chosen.where, "limit": chosen.limit}
    report = run(broker, queue, reached, plan, facts, work, display)
    conclude(plan, report, is_json=noted.json)
