"""The journal: collects the durable changes of the broker's model for the store. It does no input or output.

The model reports to a `MessageLog` each persistent message that is enqueued, delivered or settled, and to the `Journal`
every other durable change. `take` returns the changes since the last call, as a numbered `JournalBatch` for the store,
and `committed` is called once the batch is on disk. A message that is published and consumed between two batches is in
neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from amqproxy.broker.events import EventDispatcher
from amqproxy.broker.message import Message
from amqproxy.broker.storage.batch import (
    MAX_MESSAGE_LOGS,
    MAX_POSITION,
    POSITION_BITS,
    DurabilityTicket,
    JournalBatch,
    JournalRow,
    LogOwner,
    LogState,
    RecoveredLog,
)
from amqproxy.broker.storage.definition_records import DefinitionRecord
from amqproxy.broker.storage.message_log import MessageLog
from amqproxy.broker.work import Container, Job, WorkQueue

MAX_PENDING = 64 * 1024 * 1024
"""Bytes that may wait for the disk before reading from publishers stops."""


def _nothing() -> None:
    """Stand in for a missing callback."""


class Waiting(NamedTuple):
    """Callback for a batch that reaches the disk; `given_up`, if set, is called instead when writing fails."""

    number: int
    call: Callable[[], None]
    failed: Callable[[], None]
    given_up: Callable[[str], None] | None = None


class SharedBody(NamedTuple):
    """A long body seen in this batch: its first row, and its number once a second row has it."""

    message: Message
    message_log: MessageLog
    id: int
    number: int | None


class Journal:
    """Collector of durable changes; `wake` is called when a batch can be taken, and `gather` when one is taken.

    `events` is notified of failures of callbacks.
    `epoch` is added to the model's clock to get the wall clock. `rows` counts all messages ever enqueued, `spared`
    those settled before a batch contained them.
    `waiting_bytes` wait to be taken; `is_full` is true when these and those on their way to the disk reach MAX_PENDING.
    """

    def __init__(
        self,
        *,
        epoch: float = 0.0,
        wake: Callable[[], None] = lambda: None,
        max_pending: int = MAX_PENDING,
        events: EventDispatcher | None = None,
        work: WorkQueue | None = None,
    ) -> None:
        self._work = WorkQueue() if work is None else work
        self.epoch = epoch
        self.events = events or EventDispatcher()
        self.max_pending = max_pending
        self.waiting_bytes = 0
        self.rows = 0
        self.spared = 0
        self.is_urgent = False
        self.messages_written = 0
        """Messages that are on disk, or were, since the start."""
        self.number = 1
        self.last_committed = 0
        self.message_logs: dict[LogOwner, MessageLog] = {}
        self.is_dirty = False
        self.gather: Callable[[], None] = lambda: None
        self._wake = wake
        self._noted: list[MessageLog] = []
        self._created: dict[int, LogOwner] = {}
        self._deleted: list[int] = []
        self._durables: dict[str, DefinitionRecord | None] = {}
        self._seen: dict[int, SharedBody] = {}
        self._bodies: dict[int, Message] = {}
        self._bodies_dropped: list[int] = []
        self._uses: dict[int, int] = {}
        self._last_body = 0
        self._last_defined = 0
        self._last_log_number = 0
        self._free: list[int] = []
        self._freed: list[int] = []
        self._on_the_way = 0
        self._waiting: list[Waiting] = []

    def recover(self, message_logs: Iterable[RecoveredLog], shared: Mapping[int, int]) -> None:
        """Continue an earlier journal; `shared` maps row ids to the numbers of their shared bodies."""
        self.message_logs = {kept.owner: MessageLog(self, kept.owner, kept.state) for kept in message_logs}
        numbers = {message_log.number for message_log in self.message_logs.values()}
        self._last_log_number = max(numbers, default=0)
        self._free = [number for number in range(self._last_log_number, 0, -1) if number not in numbers]
        by_number = {message_log.number: message_log for message_log in self.message_logs.values()}
        for id_, number in shared.items():
            by_number[id_ >> POSITION_BITS].shared[id_] = number
        self._uses = dict(Counter(shared.values()))
        self._last_body = max(self._uses, default=0)

    # --- definitions

    def remember(self, durable: DefinitionRecord) -> None:
        """Record a definition that is new or has changed."""
        self._durables[durable.key] = durable
        self.defined()

    def forget(self, key: str) -> None:
        """Record the deletion of the definition with this key."""
        self._durables[key] = None
        self.defined()

    def defined(self) -> None:
        """Note a change of definitions, whose reply waits until it is on disk."""
        self._last_defined = self.number
        self.stir()

    @property
    def is_defining(self) -> bool:
        """Whether a change of definitions is not on disk."""
        return self._last_defined > self.last_committed

    # --- message logs

    def message_log(self, owner: LogOwner) -> MessageLog:
        """Return an owner's message log, created if missing; raise `OverflowError` if there are too many."""
        message_log = self.message_logs.get(owner)
        if message_log is None:
            if self._free:
                number = self._free.pop()
            elif self._last_log_number < MAX_MESSAGE_LOGS:
                number = self._last_log_number = self._last_log_number + 1
            else:
                raise OverflowError(f"there are {MAX_MESSAGE_LOGS} message logs already")
            message_log = self.message_logs[owner] = MessageLog(self, owner, LogState(number, 0, 0, 0, 0))
            self._created[number] = owner
            self.stir()
        return message_log

    def rename_log(self, message_log: MessageLog, owner: LogOwner) -> None:
        """Transfer a message log to another owner and report its state again."""
        del self.message_logs[message_log.owner]
        message_log.owner = owner
        self.message_logs[owner] = message_log
        self._created[message_log.number] = owner  # which replaces what the store has
        message_log.restate()

    def delete_log(self, message_log: MessageLog) -> None:
        """Delete a message log with its contents."""
        del self.message_logs[message_log.owner]
        message_log.forget()
        if self._created.pop(message_log.number, None) is None:
            self._deleted.append(message_log.number)
        self._freed.append(message_log.number)
        self.stir()

    def delete_logs(self, kind: str, vhost: str, name: str, priorities: int = 1) -> None:
        """Delete all message logs of a queue or other owner with this number of priorities."""
        for priority in range(priorities):
            message_log = self.message_logs.get(LogOwner(kind, vhost, name, priority))
            if message_log is not None:
                self.delete_log(message_log)

    def note(self, message_log: MessageLog) -> None:
        """Add a message log that has changes to the next batch."""
        self._noted.append(message_log)
        self.stir()

    def stir(self) -> None:
        """Mark the journal as dirty and wake the writer."""
        if not self.is_dirty:
            self.is_dirty = True
            self._wake()

    # --- bodies that several message logs have

    def share(self, message_log: MessageLog, id_: int, message: Message) -> int | None:
        """Return the number of a long body; `None` while only one row of this batch has it, which then embeds it."""
        seen = self._seen.get(id(message))
        first = seen.message_log.row(seen.id) if seen is not None else None
        if seen is None or (seen.number is None and first is None):
            self._seen[id(message)] = SharedBody(message, message_log, id_, None)
            return None
        number = seen.number
        if number is None or number not in self._uses:
            number = self._last_body = self._last_body + 1
            self._seen[id(message)] = seen._replace(number=number)
            self._bodies[number] = message
            self._uses[number] = 0
            if first is not None and first.shared is None:
                seen.message_log.replace(first._replace(shared=number))
                self._use(number, seen.message_log, first.id)
        self._use(number, message_log, id_)
        return number

    def unsee(self, row: JournalRow) -> None:
        """Forget the long body of a removed row, if no other row has it."""
        seen = self._seen.get(id(row.message))
        if seen is not None and seen.id == row.id and seen.number is None:
            del self._seen[id(row.message)]

    def _use(self, number: int, message_log: MessageLog, id_: int) -> None:
        message_log.shared[id_] = number
        self._uses[number] += 1

    def unshare_all(self, shared: dict[int, int]) -> None:
        """Release the bodies of many removed rows in steps; after a crash, the next start drops the remaining ones."""
        if shared:
            self._work.do(self._unsharing(shared), 0.0)

    def _unsharing(self, shared: dict[int, int]) -> Job:
        quantum = self._work.quantum
        while shared:
            self.unshare(shared.popitem()[1])
            if quantum.spend(1):
                self.stir()
                yield
        self.stir()

    def unshare(self, number: int) -> None:
        """Release a removed row's shared body, which is dropped with its last row."""
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._uses[number]
            if self._bodies.pop(number, None) is None:
                self._bodies_dropped.append(number)

    def free(self, container: Container) -> None:
        """Free a large container in steps."""
        self._work.free(container)

    # --- to the disk

    @property
    def pending(self) -> int:
        """Bytes that wait for the disk or are being written."""
        return self.waiting_bytes + self._on_the_way

    @property
    def is_full(self) -> bool:
        """Whether the bytes pending for the disk have reached the limit, so that publishers must wait."""
        return self.pending >= self.max_pending

    def take_batch(self) -> JournalBatch:
        """Take all changes gathered; an empty batch counts as committed."""
        self.gather()
        number, waiting_bytes = self.number, self.waiting_bytes
        batch = JournalBatch(
            number,
            waiting_bytes,
            self._deleted,
            [],
            self._created,
            [],
            self._bodies,
            [],
            self._bodies_dropped,
            [],
            {},
            self._durables,
            [],
        )
        for message_log in self._noted:
            if self.message_logs.get(message_log.owner) is message_log:
                message_log.report(batch)
        self.number += 1
        self._on_the_way += waiting_bytes
        self.waiting_bytes = 0
        self.is_dirty = self.is_urgent = False
        self._noted = []
        self._created = {}
        self._deleted = []
        self._durables = {}
        self._seen = {}
        self._bodies = {}
        self._bodies_dropped = []
        self._free += self._freed
        self._freed = []
        return batch

    def committed(self, batch: JournalBatch) -> None:
        """Note that a batch and all before it are on disk, except the parts that the store refused."""
        self._on_the_way -= batch.size
        self.messages_written += len(batch.rows)
        if batch.refused:
            self._refuse(batch)
        self.last_committed = batch.number
        due = [each for each in self._waiting if each.number <= batch.number]
        self._waiting = [each for each in self._waiting if each.number > batch.number]
        for each in due:
            self._notify(each.call, each.failed)

    def cannot_write(self, reason: str) -> None:
        """Notify the callbacks with `given_up` that writing a batch has failed and is retried."""
        impatient = [each for each in self._waiting if each.given_up is not None]
        self._waiting = [each for each in self._waiting if each.given_up is None]
        for each in impatient:
            assert each.given_up is not None
            self._notify(partial(each.given_up, reason), each.failed)

    def _refuse(self, batch: JournalBatch) -> None:
        """Refuse the tickets of the parts of a batch that will never be written; those parts stay in memory."""
        rows = {row.id: row for row in batch.rows}
        message_logs = {message_log.number: message_log for message_log in self.message_logs.values()}
        for what, error in batch.refused:
            place = str(what)
            if isinstance(what, int):
                ticket = rows[what].ticket
                if ticket is not None:
                    ticket.is_refused = True
                message_log = message_logs.get(what >> POSITION_BITS)
                if message_log is not None:
                    message_log.refused.add(what & MAX_POSITION)
                    place = f"{message_log.owner.kind} {message_log.owner.name} in {message_log.owner.vhost}"
            self.events.fail("cannot be stored", error, of=place.replace("\0", " "))

    def when_committed(
        self,
        call: Callable[[], None],
        failed: Callable[[], None] = _nothing,
        given_up: Callable[[str], None] | None = None,
    ) -> None:
        """Call `call` once all changes so far are on disk, and hasten that; call it at once if they are.

        If a later `call` fails, `failed` is called. `given_up` is called instead of `call`, with the reason, as soon as
        writing fails; writing is still retried.
        """
        if self.is_dirty and not self.is_urgent:
            self.is_urgent = True
            self._wake()
        self._call_after(self.number if self.is_dirty else self.number - 1, call, failed, given_up)

    def when_safe(
        self, ticket: DurabilityTicket, call: Callable[[], None], failed: Callable[[], None] = _nothing
    ) -> None:
        """Call `call` once all messages of a ticket are safe; none may be added to it afterwards."""
        if ticket.left:
            ticket.call = partial(self._notify, call, failed)
            self._call_after(self.number, ticket.kept, failed)
        else:
            call()

    def _call_after(
        self,
        number: int,
        call: Callable[[], None],
        failed: Callable[[], None],
        given_up: Callable[[str], None] | None = None,
    ) -> None:
        if number <= self.last_committed:
            call()
        else:
            self._waiting.append(Waiting(number, call, failed, given_up))

    def _notify(self, call: Callable[[], None], failed: Callable[[], None]) -> None:
        """Call back, in the turn of another connection."""
        try:
            call()
        except Exception as error:  # noqa: BLE001 - neither the store, the others nor who used a message is at fault
            self._not_notified(error, failed)

    def _not_notified(self, error: Exception, failed: Callable[[], None]) -> None:
        self.events.fail("what waited for the disk failed", error)
        with self.events.contained("what waited for the disk cannot end"):
            failed()
