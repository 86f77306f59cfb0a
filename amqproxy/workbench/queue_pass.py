"""One pass through a queue: chooses messages, has them settled, and returns the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

import msgspec
import trio

from amqproxy.moving.broker_link import ChannelRefused
from amqproxy.moving.message_forwarder import MoveFailed
from amqproxy.moving.unsettled_messages import MAX_MESSAGES
from amqproxy.peer import SERVER
from amqproxy.proxy.broker_login import LOST
from amqproxy.rules.context import Client, CommandContext
from amqproxy.rules.matching.filters import Filter, FilterFailed
from amqproxy.workbench.batch_failure import BatchFailure
from amqproxy.workbench.batch_journal import BatchJournal
from amqproxy.workbench.disturbance import Disturbance
from amqproxy.workbench.held_message import HeldMessage
from amqproxy.workbench.own_copies import OwnCopies
from amqproxy.workbench.queue_reader import QueueReader
from amqproxy.workbench.run_report import RunReport

BATCH = MAX_MESSAGES
"""Messages that are read, settled and acknowledged together: the most that can be on both sides after a failure."""

USUAL_WINDOW = 10_000
"""Default maximum of messages that are held at a time."""


RETURN_TIMEOUT = 20.0
"""Seconds for the rescue of messages, and for their return after a failure or a signal."""


FINISH_TIMEOUT = 5.0
"""Seconds of these for the messages that are on their way."""


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The messages that a run is for.

    At most `limit` of those for which `where` holds, from `position` on. Messages that are not taken are held until the
    end: with more than `window` of them, the run goes no deeper into the queue.
    """

    where: Filter | None = None
    limit: int | None = None
    position: int = 0
    window: int = USUAL_WINDOW


class Kept:
    """The outcome of a message that stays in the queue as the action wants it."""


KEPT = Kept()

Outcome = str | Kept
"""Outcome of a message: "" if it is done and can be acknowledged, or the reason why it is left."""


class Action(Protocol):
    """A way to settle the chosen messages."""

    async def settle(self, messages: Sequence[HeldMessage]) -> Sequence[Outcome]:
        """Settle a batch; return the outcome of each message when it is certain.

        Raise `BatchFailure` if it is certain of some only, `MoveFailed` or one of `LOST` if of none.
        """

    @property
    def uncertain(self) -> int:
        """Messages of the last batch that may be done, and that stay in the queue."""


class QueuePass:
    """A pass over `reader`'s queue; `rescue` publishes messages at its end. `stop` ends it after the current batch.

    `report` is brought up to date before each call of `progress`. `done` is called for each message that is done, after
    its acknowledgement, and may raise `MoveFailed`. Messages that are `copies` of this run are held until the end.
    """

    def __init__(
        self,
        reader: QueueReader,
        action: Action,
        selection: Selection,
        disturbance: Disturbance,
        report: RunReport,
        *,
        client: Client,
        rescue: Callable[[Sequence[HeldMessage]], Awaitable[Sequence[str]]] | None = None,
        journal: BatchJournal | None = None,
        copies: OwnCopies | None = None,
        done: Callable[[HeldMessage], None] = lambda message: None,
        progress: Callable[[RunReport], None] = lambda report: None,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.is_stopping = False
        self._reader = reader
        self._action = action
        self._selection = selection
        self._disturbance = disturbance
        self._report = report
        self._client = client
        self._rescue = rescue
        self._journal = journal
        self._copies = copies
        self._done = done
        self._progress = progress
        self._warn = warn
        self._unanswered = 0
        """Acknowledgements behind which the source has not answered."""

    def stop(self) -> None:
        """End the pass after the current batch."""
        self.is_stopping = True

    async def run(self) -> None:
        """Pass through the queue; raise `MoveFailed` or one of `LOST`, after which unsettled messages are in it."""
        try:
            await self._pass()
        except BaseException:
            await self._return_after_failure()
            raise

    async def _return_after_failure(self) -> None:
        """Rescue and return what is held as after a complete pass: an end of the connection would count as a return.

        From RabbitMQ 4.3 on only that counts; before, messages at the limit would die of it.
        """
        with trio.move_on_after(RETURN_TIMEOUT, shield=True):
            # The rescue has a connection of its own: it helps also if that of the queue is lost.
            with suppress(MoveFailed, *LOST), trio.move_on_after(FINISH_TIMEOUT):
                await self._reader.finish()
            try:
                await self._save(list(self._reader.latest.values()), is_journaled=False)
            except (MoveFailed, ChannelRefused, *LOST) as error:
                self._warn(f"messages at the delivery limit may be lost: {error}")
            with suppress(MoveFailed, ChannelRefused, *LOST):
                if self._reader.held:
                    await self._reader.give_back(by_closing=self._disturbance.by_closing)
                    await self._reader.depth()

    async def _pass(self) -> None:
        report, selection = self._report, self._selection
        report.possible_repeats = 0 if self._journal is None else self._journal.repeats
        is_empty = False
        while not (is_empty or self.is_stopping or self._is_enough):
            room = selection.window - self._reader.held
            if room <= 0:
                report.is_window_full = report.looked_at < report.depth
                break
            with self._answering():
                messages = await self._reader.read(self._wanted(room))
            is_empty = not messages
            others = [message for message in messages if self._copies is None or not self._copies.meet(message)]
            report.looked_at += len(others)
            chosen = self._chosen(others)
            report.chosen += len(chosen)
            kept = await self._settle(chosen) if chosen else []
            taken = {message.position for message in chosen} - {message.position for message in kept}
            await self._save([message for message in messages if message.position not in taken])
            self._progress(report)
        report.is_interrupted = self.is_stopping and not (is_empty or self._is_enough)
        with self._answering():
            await self._reader.give_back(by_closing=self._disturbance.by_closing)
            await self._reader.depth()  # answered behind all acknowledgements
        is_whole = report.looked_at >= report.depth or is_empty
        if self._journal is not None:
            self._journal.clear(is_whole=is_whole)
        report.not_looked_at = 0 if is_empty else max(0, report.depth - report.looked_at)
        self._progress(report)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Request something of the source: if it is lost, the latest acknowledgements may be, too."""
        try:
            yield
        except (MoveFailed, ChannelRefused, *LOST):
            self._report.done -= self._unanswered
            self._report.uncertain += self._unanswered
            raise
        finally:
            self._unanswered = 0

    @property
    def _is_enough(self) -> bool:
        report, limit = self._report, self._selection.limit
        return report.looked_at >= report.depth or (limit is not None and report.chosen >= limit)

    def _wanted(self, room: int) -> int:
        """Return how many messages to read, no more than can be needed."""
        report, selection = self._report, self._selection
        wanted = min(BATCH, room, report.depth - report.looked_at)
        if selection.limit is not None and selection.where is None:
            before = max(0, selection.position - report.looked_at)
            wanted = min(wanted, before + selection.limit - report.chosen)
        return wanted

    def _chosen(self, messages: Sequence[HeldMessage]) -> list[HeldMessage]:
        selection = self._selection
        most = len(messages) if selection.limit is None else selection.limit - self._report.chosen
        chosen: list[HeldMessage] = []
        for message in messages:
            if self._journal is not None:
                self._journal.see(message)
            if len(chosen) < most and message.position >= selection.position and self._holds(message):
                chosen.append(message)
        return chosen

    def _holds(self, message: HeldMessage) -> bool:
        """Whether the filter chooses a message; one on which it fails stays, with a warning for the first."""
        where = self._selection.where
        if where is None:
            return True
        context = CommandContext(sender=SERVER, command=message.command, client=self._client)
        try:
            return where.condition.holds(context)
        except FilterFailed as failure:
            if not self._report.unreadable:
                self._warn(f"the filter fails on message {message.position}, which stays (reported once): {failure}")
            self._report.unreadable += 1
            return False

    async def _settle(self, chosen: list[HeldMessage]) -> list[HeldMessage]:
        """Settle a batch; return the messages that stay. If the batch fails, raise it behind the acknowledgements."""
        report = self._report
        if self._journal is not None:
            self._journal.begin(chosen)
        failure: BatchFailure | None = None
        outcomes: Sequence[object]
        try:
            outcomes = await self._action.settle(chosen)
        except BatchFailure as error:
            failure, outcomes = error, error.outcomes
        finally:
            report.uncertain += self._action.uncertain
        done = [message for message, outcome in zip(chosen, outcomes, strict=True) if outcome == ""]
        try:
            await self._reader.acknowledge(done)
            if failure is not None:
                await self._reader.depth()  # answered behind the acknowledgements
        except BaseException:
            report.uncertain += len(done)
            raise
        kept = []
        for message, outcome in zip(chosen, outcomes, strict=True):
            if outcome == "":
                report.done += 1
                if self._journal is not None:
                    self._journal.meet(message)
                    report.possible_repeats = self._journal.repeats
                continue
            kept.append(message)
            if isinstance(outcome, str):
                report.leave(message.position, outcome, message.command.properties.message_id)
            elif outcome is KEPT:
                report.done += 1
        self._unanswered = len(done)
        for message in done:
            self._done(message)
        if failure is not None:
            raise failure
        return kept

    async def _save(self, kept: Sequence[HeldMessage], *, is_journaled: bool = True) -> None:
        """Put copies of the messages that would die of their return at the queue's end, and remove them here."""
        fatal = self._disturbance.fatal_count
        if (
            fatal is None
            or self._rescue is None
            or not (doomed := [message for message in kept if message.delivery_count >= fatal])
        ):
            return
        if self._journal is not None and is_journaled:
            await self._reader.depth()  # answered behind the acknowledgements of the batch that the journal has
            self._journal.begin(doomed)
        failure: BatchFailure | None = None
        with trio.fail_after(RETURN_TIMEOUT, shield=True):  # a publish that is cut in the middle cannot be tried again
            try:
                outcomes = await self._rescue(doomed)
            except BatchFailure as error:
                failure, outcomes = error, error.outcomes
        saved = [message for message, outcome in zip(doomed, outcomes, strict=True) if outcome == ""]
        await self._reader.acknowledge(saved)
        self._report.rescued += len(saved)
        if failure is not None:
            raise failure
        if reasons := [outcome for outcome in outcomes if outcome]:
            raise MoveFailed(
                f"{len(reasons)} messages at the delivery limit could not be put at the queue's end ({reasons[0]}): "
                "the broker drops or dead-letters them now"
            )
