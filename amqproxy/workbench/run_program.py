"""One run over a queue as a child process: its task comes on standard input, its reports go to standard output.

Standard input has the password, which must not appear in process lists. Its end stops the run after the current batch.
Each report is a line of JSON with `report`: `before` (the facts, and what the run does to the queue), `progress`,
`message` (of a peek), `edited` (with what changed), `warning`, and at last `end`, with the result and the reason if the
run was refused.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
import trio

from amqproxy.amqp091.properties import Properties
from amqproxy.bodies.addon_bodies import AddonBodies
from amqproxy.configuration.config import ConfigError
from amqproxy.moving.message_forwarder import MoveFailed
from amqproxy.rules.matching.filters import compiled
from amqproxy.taps.record import encoded
from amqproxy.workbench.audit import Audit
from amqproxy.workbench.batch_journal import QueueBusy
from amqproxy.workbench.broker_api import BrokerAPI
from amqproxy.workbench.destination import Destination, NoPlace, ToExchange, ToOrigin, ToQueue
from amqproxy.workbench.disturbance import Disturbance, Disturbed, disturbance_of
from amqproxy.workbench.drain_file import drain_into
from amqproxy.workbench.edit import Edit
from amqproxy.workbench.edited_changes import EditedChanges
from amqproxy.workbench.held_message import HeldMessage
from amqproxy.workbench.message_line import LineError, line_of, read_line
from amqproxy.workbench.peek import peek
from amqproxy.workbench.queue_facts import Given, QueueFacts, queue_facts
from amqproxy.workbench.queue_pass import Selection
from amqproxy.workbench.run_report import RunReport
from amqproxy.workbench.run_task import OneMessage, RunTask
from amqproxy.workbench.runs import Bench, BenchQueue, CanStop, RunPlan, Told, look_through, move, noted, opened

PROGRESS_INTERVAL = 0.25
"""Seconds between two reports of progress."""

Work = Callable[[Bench, Audit | None], Awaitable[None]]


class RunProgram:
    """The run of one task; `tell` gets its reports."""

    def __init__(self, task: RunTask, tell: Callable[[dict[str, Any]], None]) -> None:
        self.report = RunReport(queue=task.queue)
        self._task = task
        self._tell = tell
        self._bodies = AddonBodies()
        self._running: CanStop | None = None
        self._is_stopping = False
        self._scope = trio.CancelScope()
        self._told_at = 0.0
        self._plan = RunPlan(command=task.command, selection=Selection())

    def stop(self) -> None:
        """End the run after its current batch, or at once before it has begun."""
        self._is_stopping = True
        if self._running is None:
            self._scope.cancel()
        else:
            self._running.stop()

    async def run(self) -> None:
        """Run the task, and report its end."""
        refusal = ""
        try:
            with self._scope:
                await self._work()
        except (Disturbed, QueueBusy, MoveFailed, LineError, ConfigError, ValueError) as error:
            refusal = str(error)
        except OSError as error:
            refusal = f"{error.filename or ''}: {error.strerror}"
        finally:
            self._bodies.close()
        self.report.is_interrupted = self.report.is_interrupted or self._is_stopping
        self._tell({"report": "end", "result": self.report.to_json(), "refusal": refusal})

    async def _work(self) -> None:
        task = self._task
        api = BrokerAPI(url=task.api, user=task.end.user, password=task.end.password) if task.api else None
        given = Given(type=task.type, delivery_limit=task.delivery_limit, api=api)
        queue = BenchQueue(end=task.end, vhost=task.vhost, name=task.queue, given=given)
        is_noted = task.command not in ("facts", "peek")
        audit = Path(task.audit) if is_noted else None
        selection = Selection(
            where=None if task.where is None else compiled(task.where),
            limit=task.limit if task.one is None else 1,
            position=0 if task.one is None else task.one.position,
            window=task.window,
        )
        self._plan = RunPlan(
            command=task.command,
            selection=selection,
            state=None if audit is None else audit.parent,
            audit=audit,
            is_dry_run=task.is_dry_run,
        )
        work: dict[str, Work] = {"facts": self._facts, "peek": self._peek, "drain": self._drain}
        facts = {"broker": queue.broker, "user": task.end.user, "vhost": task.vhost, "queue": task.queue, **task.facts}
        async with noted(self._plan, self.report, facts) as notes, opened(queue) as bench:
            await work.get(task.command, self._move)(bench, notes)

    # --- commands

    async def _facts(self, bench: Bench, audit: Audit | None) -> None:
        queue = bench.queue
        facts = await queue_facts(bench.link, queue.vhost, queue.name, queue.given)
        self._before(facts, disturbance_of(facts))

    async def _peek(self, bench: Bench, audit: Audit | None) -> None:
        await peek(bench, self._plan, self._told(), self.report, self._show)

    async def _drain(self, bench: Bench, audit: Audit | None) -> None:
        path = Path(self._task.file)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.report.to = path.name
        action = drain_into(path, self._task.queue, self._task.vhost, is_dry_run=self._plan.is_dry_run)
        try:
            await look_through(bench, action, self._plan, self._told(), self.report)
        finally:
            action.close()

    async def _move(self, bench: Bench, audit: Audit | None) -> None:
        changes = None if self._task.command != "edit" else EditedChanges(self._edit())

        async def change(message: HeldMessage) -> tuple[Properties, bytes]:
            assert changes is not None
            changed = await changes.change(message)
            if self._plan.is_dry_run:
                self._tell({"report": "edited", "position": message.position, "changes": changes.of(message)})
            return changed

        def note(message: HeldMessage) -> None:
            if changes is not None:
                found = changes.note(audit, message)
                self._tell({"report": "edited", "position": message.position, "changes": found})

        await move(
            bench,
            self._destination(),
            self._plan,
            self._told(),
            self.report,
            change=None if changes is None else change,
            note=note,
        )

    def _destination(self) -> Destination:
        task = self._task
        if task.command == "requeue" or (task.command == "edit" and task.goes_back):
            return ToOrigin(task.by)
        if task.command == "edit":
            return ToQueue(task.queue)
        return ToExchange(task.exchange or "", task.routing_key) if task.to is None else ToQueue(task.to)

    def _edit(self) -> Callable[[HeldMessage], Awaitable[tuple[Properties, bytes]]]:
        task = self._task
        if task.one is not None:
            return _edit_of(task.one)
        every = task.every
        if every is None:
            raise LineError("nothing is changed")
        body = None if every.body is None else every.body.encode()
        edit = Edit(properties=every.properties, headers=every.headers, without=every.without, body=body)
        if edit == Edit():
            raise LineError("nothing is changed")
        edit.check()
        return edit.of

    # --- reports

    def _told(self) -> Told:
        return Told(
            before=self._before,
            begun=self._begin,
            progress=self._progress,
            warn=lambda text: self._tell({"report": "warning", "text": text}),
        )

    def _begin(self, running: CanStop) -> None:
        self._running = running
        if self._is_stopping:
            running.stop()

    def _before(self, facts: QueueFacts, disturbance: Disturbance) -> None:
        found = {"type": facts.type, "messages": facts.messages, "consumers": facts.consumers}
        limit = {"delivery_limit": facts.delivery_limit} if facts.type == "quorum" else {}
        self._tell({"report": "before", "facts": found | limit, "lines": list(disturbance.lines)})

    def _progress(self, report: RunReport) -> None:
        now = monotonic()
        if now - self._told_at >= PROGRESS_INTERVAL:
            self._told_at = now
            self._tell({"report": "progress", "result": msgspec.structs.replace(report, left=[], places={}).to_json()})

    def _show(self, message: HeldMessage) -> None:
        properties, most = message.properties, self._task.body
        view = self._bodies.view(
            message.body,
            "auto",
            content_type=properties.content_type or "",
            content_encoding=properties.content_encoding or "",
        )
        line = line_of(message, self._task.queue)
        shown = "" if view is None else view.text
        is_text = isinstance(line.body, str)
        self._tell(
            {
                "report": "message",
                "position": message.position,
                "exchange": line.exchange,
                "routing_key": line.routing_key,
                "redelivered": line.redelivered,
                "delivery_count": line.delivery_count,
                "properties": line.properties,
                "size": line.size,
                "form": "" if view is None else view.form,
                "shown": shown[:most],
                "is_cut": len(shown) > most or view is None,
                "body": line.body if is_text and len(line.body) <= most else None,
                "digest": message.digest.hex(),
            }
        )


def _edit_of(one: OneMessage) -> Callable[[HeldMessage], Awaitable[tuple[Properties, bytes]]]:
    """Return the change of one message; any other message in its place stays."""

    async def change(message: HeldMessage) -> tuple[Properties, bytes]:
        if message.digest.hex() != one.digest:
            raise NoPlace("the queue has changed: another message is in this place. Look again")
        try:
            found = read_line(encoded({"properties": one.properties}), message.position, message.properties)
        except LineError as error:
            raise NoPlace(str(error)) from None
        return found.command.properties, message.body if one.body is None else one.body.encode()

    return change


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the dashboard tells when to stop
    with open(0, "rb", buffering=0, closefd=False) as tasks:
        task = msgspec.json.decode(tasks.readline(), type=RunTask)

    def tell(report: dict[str, Any]) -> None:
        sys.stdout.buffer.write(encoded(report) + b"\n")
        sys.stdout.buffer.flush()

    trio.run(_run, RunProgram(task, tell))


async def _run(program: RunProgram) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stop_with_input, program)
        await program.run()
        nursery.cancel_scope.cancel()


async def _stop_with_input(program: RunProgram) -> None:
    await trio.to_thread.run_sync(_wait_for_end_of_input, abandon_on_cancel=True)
    program.stop()


def _wait_for_end_of_input() -> None:
    while os.read(0, 4096):
        pass


if __name__ == "__main__":
    main()
