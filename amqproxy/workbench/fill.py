"""Publishes the messages of a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from amqproxy.moving.message_forwarder import MoveFailed
from amqproxy.moving.unsettled_messages import MAX_BYTES
from amqproxy.peer import SERVER
from amqproxy.rules.context import Client, CommandContext
from amqproxy.rules.matching.filters import FilterFailed
from amqproxy.workbench.batch_failure import BatchFailure
from amqproxy.workbench.destination import Destination
from amqproxy.workbench.held_message import HeldMessage
from amqproxy.workbench.message_line import LineError, read_line
from amqproxy.workbench.move import Move
from amqproxy.workbench.queue_pass import KEPT, Selection
from amqproxy.workbench.run_report import RunReport
from amqproxy.workbench.runs import Bench, RunPlan, Told, prepared

BATCH = 64
"""Messages that are published together."""


def messages_of_lines(path: Path) -> Iterator[HeldMessage]:
    """Yield the messages of a file of JSON lines; raise `MoveFailed` with the line that is not one."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file):
                try:
                    yield read_line(line, number)
                except LineError as error:
                    raise MoveFailed(f"{path}:{number + 1}: {error}") from None
    except OSError as error:
        raise MoveFailed(f"{path} cannot be read: {error.strerror}") from None


def _batch(messages: Iterator[HeldMessage]) -> list[HeldMessage]:
    """Return the next messages, at most `BATCH`, and about `MAX_BYTES` of them; none at the end."""
    found: list[HeldMessage] = []
    size = 0
    while len(found) < BATCH and size < MAX_BYTES and (message := next(messages, None)) is not None:
        found.append(message)
        size += len(message.body)
    return found


class Filling:
    """The publishes of a file's messages; `stop` ends them after the current batch."""

    def __init__(self) -> None:
        self.is_stopping = False

    def stop(self) -> None:
        self.is_stopping = True

    async def run(
        self,
        bench: Bench,
        destination: Destination,
        messages: Iterable[HeldMessage],
        plan: RunPlan,
        told: Told,
        report: RunReport,
    ) -> None:
        """Publish the chosen messages; raise one of `FAILURES`.

        Each message is confirmed before the next batch. `report.done` and `left_count` together tell from which
        position a run that failed can go on, if it chose all messages.
        """
        publisher = await bench.publisher()
        report.to = destination.text
        action = Move(publisher, destination, is_dry_run=plan.is_dry_run)
        report.places = action.places
        chosen = islice(self._chosen(messages, plan.selection, told, report), plan.selection.limit)
        async with prepared(destination, publisher, plan, report):
            while not self.is_stopping and (batch := _batch(chosen)):
                report.chosen += len(batch)
                await self._publish(action, batch, report)
                told.progress(report)
        report.is_interrupted = self.is_stopping

    async def _publish(self, action: Move, batch: list[HeldMessage], report: RunReport) -> None:
        failure: BatchFailure | None = None
        outcomes: Sequence[object]
        try:
            outcomes = await action.settle(batch)
        except BatchFailure as error:
            failure, outcomes = error, error.outcomes
        finally:
            report.uncertain += action.uncertain
        known = outcomes.index(None) if None in outcomes else len(batch)
        for message, outcome in zip(batch, outcomes[:known], strict=False):
            if outcome == "" or outcome is KEPT:
                report.done += 1
            else:
                report.leave(message.position, str(outcome), message.command.properties.message_id)
        # A run that continues at the first unknown outcome publishes confirmed messages behind it again.
        report.uncertain += outcomes[known:].count("")
        if failure is not None:
            raise failure

    def _chosen(
        self, messages: Iterable[HeldMessage], selection: Selection, told: Told, report: RunReport
    ) -> Iterator[HeldMessage]:
        for message in messages:
            report.depth = report.looked_at = message.position + 1
            if message.position < selection.position:
                continue
            if selection.where is not None:
                context = CommandContext(sender=SERVER, command=message.command, client=Client())
                try:
                    if not selection.where.condition.holds(context):
                        continue
                except FilterFailed as failure:
                    told.warn(f"the filter fails on message {message.position}, which is left out: {failure}")
                    report.unreadable += 1
                    continue
            yield message
