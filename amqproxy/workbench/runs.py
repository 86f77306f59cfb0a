"""Runs over a queue: connections, journal and audit around a pass."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec
import trio

from amqproxy.moving.broker_link import NO_ANSWER, BrokerLink, ChannelRefused, open_link
from amqproxy.moving.message_forwarder import MoveFailed
from amqproxy.moving.move_job import MoveEnd
from amqproxy.moving.move_login import dial_of, login_of
from amqproxy.proxy.broker_login import LOST
from amqproxy.proxy.upstream import Unreachable
from amqproxy.rules.context import Client
from amqproxy.workbench.audit import Audit
from amqproxy.workbench.batch_journal import BatchJournal, QueueBusy
from amqproxy.workbench.broker_api import APIFailed
from amqproxy.workbench.confirming_publisher import ConfirmingPublisher
from amqproxy.workbench.destination import Destination
from amqproxy.workbench.disturbance import Disturbance, Disturbed, disturbance_of
from amqproxy.workbench.held_message import HeldMessage
from amqproxy.workbench.move import Change, Move
from amqproxy.workbench.own_copies import OwnCopies
from amqproxy.workbench.queue_facts import Given, QueueFacts, queue_facts
from amqproxy.workbench.queue_pass import Action, QueuePass, Selection
from amqproxy.workbench.queue_reader import QueueReader
from amqproxy.workbench.rescue import Rescue
from amqproxy.workbench.run_report import RunReport

CONNECTION_NAME = "amqproxy queue"

ENDED = "the run is over"

CLEAN_UP_TIMEOUT = 2.0
"""Seconds for the removal of what a run has declared."""

FAILURES = (MoveFailed, Unreachable, ChannelRefused, APIFailed, *LOST)
"""Exceptions that end a run without a fault of ours."""


class BenchQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue at a broker; `given` is what the user says about it."""

    end: MoveEnd
    vhost: str
    name: str
    given: Given = Given()

    @property
    def broker(self) -> str:
        """HOST:PORT."""
        return self.end.upstream.address


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a run. `state` is the directory of audit and journals, `None` to keep none."""

    command: str
    selection: Selection
    state: Path | None = None
    audit: Path | None = None
    is_dry_run: bool = False


class CanStop(Protocol):
    """A run that ends after its current batch when it is told to stop."""

    def stop(self) -> None: ...


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """Functions that are told what happens.

    `before` gets the facts and what the run does to the queue, before a message is touched; `begun` what can be
    stopped.
    """

    before: Callable[[QueueFacts, Disturbance], None] = lambda facts, disturbance: None
    begun: Callable[[CanStop], None] = lambda running: None
    progress: Callable[[RunReport], None] = lambda report: None
    warn: Callable[[str], None] = lambda text: None


class Bench:
    """The open connections of a run over a queue, while `opened` lasts."""

    def __init__(self, queue: BenchQueue, link: BrokerLink, stack: AsyncExitStack, nursery: trio.Nursery) -> None:
        self.queue = queue
        self.link = link
        self._stack = stack
        self._nursery = nursery

    async def publisher(self, end: MoveEnd | None = None, vhost: str | None = None) -> ConfirmingPublisher:
        """Return a publisher over a connection of its own, to the queue's broker unless another one is given."""
        chosen = self.queue.end if end is None else end
        link = await self._stack.enter_async_context(
            open_link(
                dial_of(chosen),
                login_of(chosen, CONNECTION_NAME),
                self.queue.vhost if vhost is None else vhost,
                ended=ENDED,
            )
        )
        self._nursery.start_soon(_beat, link)
        return ConfirmingPublisher(link)

    async def renew(self) -> None:
        """Connect again: the link of a stream cannot be used after `queue_facts`."""
        self.link = await _linked(self.queue, self._stack, self._nursery)


async def _linked(queue: BenchQueue, stack: AsyncExitStack, nursery: trio.Nursery) -> BrokerLink:
    login = login_of(queue.end, CONNECTION_NAME)
    link = await stack.enter_async_context(open_link(dial_of(queue.end), login, queue.vhost, ended=ENDED))
    nursery.start_soon(_beat, link)
    return link


async def _beat(link: BrokerLink) -> None:
    """Send heartbeats; who uses the link notices if it is lost."""
    with suppress(*LOST):
        await link.send_heartbeats()


@asynccontextmanager
async def opened(queue: BenchQueue) -> AsyncIterator[Bench]:
    """Return the connections to a queue within the block. Raise one of `FAILURES`."""
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        try:
            async with AsyncExitStack() as stack:
                yield Bench(queue, await _linked(queue, stack, nursery), stack, nursery)
        except Exception as error:  # noqa: BLE001 - raised below, outside the nursery, which would wrap it in a group
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def look_through(
    bench: Bench,
    action: Action,
    plan: RunPlan,
    told: Told,
    report: RunReport,
    facts: QueueFacts | None = None,
    *,
    copies: OwnCopies | None = None,
    done: Callable[[HeldMessage], None] = lambda message: None,
    target: AbstractAsyncContextManager[None] | None = None,
) -> None:
    """Pass once through the queue, and bring the report up to date; raise one of `FAILURES`, `Disturbed`, `QueueBusy`.

    `target` is entered when the queue is locked: a run that is refused changes nothing at a broker.
    `Disturbed` is raised before a message is touched, if messages would be returned that might die of it.
    """
    queue = bench.queue
    if facts is None:
        facts = await queue_facts(bench.link, queue.vhost, queue.name, queue.given)
    if facts.type == "stream":
        raise MoveFailed("it is a stream: its messages cannot be taken out. `queue peek` reads them")
    disturbance = disturbance_of(facts)  # any run may have to return messages, if only because it fails
    report.depth = facts.messages
    told.before(facts, disturbance)
    journal: BatchJournal | None = None
    async with AsyncExitStack() as stack:
        if plan.state is not None and not plan.is_dry_run:
            journal = stack.enter_context(BatchJournal(plan.state / "batches", queue.broker, queue.vhost, queue.name))
            if journal.suspects:
                told.warn(
                    f"an earlier run over this queue was ended in the middle: {journal.suspects} of its messages may "
                    "be at their new place and in the queue. Those that are met again are counted"
                )
        if target is not None:
            await stack.enter_async_context(target)
        rescue: Rescue | None = None
        if disturbance.fatal_count is not None:
            rescue = Rescue(await bench.publisher(), queue.name)
            stack.push_async_callback(_end_of, rescue)
            await rescue.begin()
        queue_pass = QueuePass(
            QueueReader(bench.link, queue.name),
            action,
            plan.selection,
            disturbance,
            report,
            client=Client(vhost=queue.vhost, user=queue.end.user, upstream=queue.broker),
            rescue=None if rescue is None else rescue.copy,
            journal=journal,
            copies=copies,
            done=done,
            progress=told.progress,
            warn=told.warn,
        )
        told.begun(queue_pass)
        await queue_pass.run()


async def _end_of(rescue: Rescue) -> None:
    with trio.move_on_after(CLEAN_UP_TIMEOUT, shield=True), suppress(*FAILURES):
        await rescue.end()


async def move(
    bench: Bench,
    destination: Destination,
    plan: RunPlan,
    told: Told,
    report: RunReport,
    *,
    change: Change | None = None,
    note: Callable[[HeldMessage], None] = lambda message: None,
    end: MoveEnd | None = None,
    vhost: str | None = None,
) -> None:
    """Publish the chosen messages at a destination, at another broker if `end` is given; like `look_through`.

    `note` is called for each message that was published and acknowledged; it may raise `MoveFailed`.
    """
    publisher = await bench.publisher(end, vhost)
    report.to = destination.text
    copies = OwnCopies() if end is None else None
    action = Move(publisher, destination, change=change, copies=copies, is_dry_run=plan.is_dry_run)
    report.places = action.places
    target = prepared(destination, publisher, plan, report)
    await look_through(bench, action, plan, told, report, copies=copies, done=note, target=target)


@asynccontextmanager
async def prepared(
    destination: Destination, publisher: ConfirmingPublisher, plan: RunPlan, report: RunReport
) -> AsyncIterator[None]:
    """Prepare a destination for the block, and remove the run's exchange at its end, also after a failure."""
    if plan.is_dry_run:
        await destination.check(publisher)
        yield
        return
    try:
        await destination.begin(publisher)
        yield
    finally:
        report.possible_repeats += publisher.repeated
        with trio.move_on_after(CLEAN_UP_TIMEOUT, shield=True), suppress(*FAILURES):
            await destination.end(publisher)


@asynccontextmanager
async def noted(plan: RunPlan, report: RunReport, facts: dict[str, Any]) -> AsyncIterator[Audit | None]:
    """Note the run in the audit before and after the block, which may note more; put failures into the report."""
    report.run, report.command, report.is_dry_run = secrets.token_hex(6), plan.command, plan.is_dry_run
    audit = None if plan.audit is None else Audit(plan.audit, report.run, {"command": plan.command, **facts})
    try:
        if audit is not None:
            audit.begin()
        try:
            yield audit
        except FAILURES as error:
            report.failure = str(error) or NO_ANSWER
        except (Disturbed, QueueBusy) as error:
            report.failure = str(error)
            raise
        except trio.Cancelled:
            report.is_interrupted = True
            raise
    finally:
        if audit is not None:
            try:
                audit.note("ended", report.to_json())
            except MoveFailed as error:
                report.failure = report.failure or str(error)
            audit.close()
