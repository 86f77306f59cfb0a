"""Shows messages, which stay in the queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from amqproxy.peer import SERVER
from amqproxy.rules.context import Client, CommandContext
from amqproxy.rules.matching.filters import FilterFailed
from amqproxy.workbench.disturbance import disturbance_of
from amqproxy.workbench.held_message import HeldMessage
from amqproxy.workbench.queue_facts import queue_facts
from amqproxy.workbench.queue_pass import KEPT, Outcome, Selection
from amqproxy.workbench.run_report import RunReport
from amqproxy.workbench.runs import Bench, RunPlan, Told, look_through
from amqproxy.workbench.stream_reader import Offset, read_stream


class Peek:
    """An action that shows each chosen message."""

    uncertain = 0

    def __init__(self, show: Callable[[HeldMessage], None]) -> None:
        self._show = show

    async def settle(self, messages: Sequence[HeldMessage]) -> Sequence[Outcome]:
        for message in messages:
            self._show(message)
        return [KEPT] * len(messages)


async def peek(
    bench: Bench,
    plan: RunPlan,
    told: Told,
    report: RunReport,
    show: Callable[[HeldMessage], None],
    offset: Offset = "first",
) -> None:
    """Show the chosen messages of a queue, or of a stream from `offset` on; raise what `look_through` raises."""
    queue = bench.queue
    facts = await queue_facts(bench.link, queue.vhost, queue.name, queue.given)
    if facts.type != "stream":
        await look_through(bench, Peek(show), plan, told, report, facts)
        return
    await bench.renew()
    report.depth = facts.messages
    told.before(facts, disturbance_of(facts))
    stream = _Stream(plan.selection, Client(vhost=queue.vhost, user=queue.end.user), report, show)
    told.begun(stream)
    await read_stream(bench.link, queue.name, offset, stream.see)
    report.is_interrupted = stream.is_stopping


class _Stream:
    """The messages of a stream that are shown."""

    def __init__(
        self, selection: Selection, client: Client, report: RunReport, show: Callable[[HeldMessage], None]
    ) -> None:
        self.is_stopping = False
        self._selection = selection
        self._client = client
        self._report = report
        self._show = show

    def stop(self) -> None:
        """End the reading with the next message."""
        self.is_stopping = True

    def see(self, message: HeldMessage) -> bool:
        """Show a message if it is chosen; return whether to read on."""
        report, selection = self._report, self._selection
        report.looked_at += 1
        if message.position >= selection.position and self._holds(message):
            report.chosen += 1
            report.done += 1
            self._show(message)
        is_enough = selection.limit is not None and report.chosen >= selection.limit
        return not (is_enough or self.is_stopping)

    def _holds(self, message: HeldMessage) -> bool:
        where = self._selection.where
        try:
            return where is None or where.condition.holds(
                CommandContext(sender=SERVER, command=message.command, client=self._client)
            )
        except FilterFailed:
            self._report.unreadable += 1
            return False
