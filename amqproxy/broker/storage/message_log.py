"""The durable messages of one queue in the journal: enqueued, delivered and settled."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol, TypeVar

from amqproxy.broker.message import Message
from amqproxy.broker.storage.batch import (
    POSITION_BITS,
    ClearedRange,
    DurabilityTicket,
    JournalBatch,
    JournalRow,
    LogOwner,
    LogState,
    RedeliveryMark,
)
from amqproxy.broker.work import Container

T = TypeVar("T")

NEVER = float("inf")

EMBEDDED = 4096
"""Bytes of a body up to which each queue has its own copy on the disk; longer ones are shared."""

ENTRY_COST = 256
"""Estimated bytes of a waiting row without its body."""

SETTLEMENT_COST = 40


class MessageLogJournal(Protocol):
    """The journal of a message log; `journal` has what its methods do."""

    epoch: float
    waiting_bytes: int
    rows: int
    spared: int
    number: int
    last_committed: int
    is_dirty: bool

    def note(self, message_log: MessageLog, /) -> None: ...

    def defined(self) -> None: ...

    def share(self, message_log: MessageLog, id_: int, message: Message, /) -> int | None: ...

    def unsee(self, row: JournalRow, /) -> None: ...

    def unshare(self, number: int, /) -> None: ...

    def unshare_all(self, shared: dict[int, int], /) -> None: ...

    def free(self, container: Container, /) -> None: ...


class MessageLog:
    """One line of messages, first in, first out. Positions only ever rise; `last` is the highest that has been seen.

    The model reports only persistent messages to it, and only where they wait in something durable. `messages` is how
    many there are, `body_bytes` what their bodies come to, and `delivered_to` the highest position that was handed out.
    """

    __slots__ = (
        "_cleared",
        "_counts",
        "_first",
        "_is_noted",
        "_rows",
        "_rows_bytes",
        "_settled",
        "body_bytes",
        "delivered_to",
        "journal",
        "last",
        "messages",
        "number",
        "owner",
        "refused",
        "shared",
    )

    def __init__(self, journal: MessageLogJournal, owner: LogOwner, state: LogState) -> None:
        self.owner = owner
        self.number, self.messages, self.body_bytes, self.last, self.delivered_to = state
        self.journal = journal
        self._first = self.number << POSITION_BITS
        self._is_noted = False
        self._rows: dict[int, JournalRow] = {}
        self._rows_bytes = 0
        """Share of `_rows` in the bytes that wait for the disk."""
        self._settled: list[int] = []
        self._counts: dict[int, RedeliveryMark] = {}
        self._cleared: ClearedRange | None = None
        self.refused: set[int] = set()
        """Positions of messages that the store has refused: they are only in memory."""
        self.shared: dict[int, int] = {}
        """Numbers of shared bodies by row id."""

    def enqueued(
        self, position: int, message: Message, expires_at: float = NEVER, ticket: DurabilityTicket | None = None
    ) -> None:
        """Record a message enqueued above all other positions; `expires_at` is in model seconds, `ticket` counts it."""
        journal = self.journal
        if ticket is not None:
            ticket.left += 1
        id_ = self._first + position
        size = len(message.body)
        self._rows[id_] = JournalRow(
            id_,
            size,
            None if expires_at == NEVER else expires_at + journal.epoch,
            None if size <= EMBEDDED else journal.share(self, id_, message),
            message,
            ticket,
        )
        self.last = position
        self.messages += 1
        self.body_bytes += size
        journal.rows += 1
        journal.waiting_bytes += size + ENTRY_COST
        self._rows_bytes += size + ENTRY_COST
        if not self._is_noted:
            self._note()

    def delivered(self, position: int) -> None:
        """Record the delivery of a message and all before it: after a restart they count as redelivered."""
        if position > self.delivered_to:
            self.delivered_to = position
            if not self._is_noted:
                self._note()

    def returned(self, position: int, delivery_count: int, turn: int = 0) -> None:
        """Record a message's `delivery_count` of returns; `turn` is its place among those waiting for redelivery."""
        self._counts[self._first + position] = RedeliveryMark(delivery_count, turn)
        if not self._is_noted:
            self._note()

    def settled(self, position: int, size: int, *, is_used: bool = True) -> None:
        """Record the settlement of a message whose body has `size` bytes.

        With `is_used` false, its ticket still waits for the disk, because the message is moved elsewhere.
        """
        journal = self.journal
        id_ = self._first + position
        self.messages -= 1
        self.body_bytes -= size
        row = self._rows.pop(id_, None)
        if row is None:
            self._settled.append(id_)
            journal.waiting_bytes += SETTLEMENT_COST
        else:
            journal.waiting_bytes -= row.size + ENTRY_COST
            self._rows_bytes -= row.size + ENTRY_COST
            journal.spared += 1
            if size > EMBEDDED:
                journal.unsee(row)
            if is_used and row.ticket is not None:
                row.ticket.used()
        if self._counts:
            self._counts.pop(id_, None)
        if self.refused:
            self.refused.discard(position)
        if self.shared and (number := self.shared.pop(id_, None)) is not None:
            journal.unshare(number)
        if not self._is_noted:
            self._note()

    def purged(self, kept: Mapping[int, int] = MappingProxyType({})) -> None:
        """Record a purge of all messages except the unacknowledged ones, given as their sizes by position."""
        self.journal.defined()
        self._clear_all(kept)
        self.messages = len(kept)
        self.body_bytes = sum(kept.values())

    def trimmed(self, position: int, messages: int, body_bytes: int) -> None:
        """Record the removal of all messages up to a position; `messages` and `body_bytes` are those that remain."""
        last, rows = self._first + position, self._rows
        for id_ in [id_ for id_ in rows if id_ <= last]:
            self._count_rows(-(rows.pop(id_).size + ENTRY_COST))
        self._counts = {id_: count for id_, count in self._counts.items() if id_ > last}
        for id_ in [id_ for id_ in self.shared if id_ <= last]:
            self.journal.unshare(self.shared.pop(id_))
        self._cleared = ClearedRange(self._first, last)
        self.messages = messages
        self.body_bytes = body_bytes
        if not self._is_noted:
            self._note()

    def _clear_all(self, kept: Mapping[int, int]) -> None:
        """Drop all messages except these positions at once, however many there are; free their containers in steps."""
        journal, first = self.journal, self._first
        self._count_rows(-self._rows_bytes)
        journal.free(self._rows)
        self._rows = _only(self._rows, first, kept)
        self._count_rows(sum(row.size + ENTRY_COST for row in self._rows.values()))
        self._counts = _only(self._counts, first, kept)
        gone, self.shared = self.shared, _only(self.shared, first, kept)
        for id_ in self.shared:
            del gone[id_]
        journal.unshare_all(gone)
        # It takes the place of an earlier one: whatever that one kept is kept now, or done with since.
        self._cleared = ClearedRange(first, first + self.last, tuple(kept))
        if not self._is_noted:
            self._note()

    def _count_rows(self, difference: int) -> None:
        self._rows_bytes += difference
        self.journal.waiting_bytes += difference

    def restate(self) -> None:
        """Report its state to the next batch."""
        if not self._is_noted:
            self._note()

    def _note(self) -> None:
        self._is_noted = True
        self.journal.note(self)

    def row(self, id_: int) -> JournalRow | None:
        """Return a row that no batch has taken; `None` if there is none."""
        return self._rows.get(id_)

    def replace(self, row: JournalRow) -> None:
        """Replace a row that no batch has taken."""
        self._rows[row.id] = row

    def forget(self) -> None:
        """Discard all unreported changes of the deleted message log."""
        self._clear_all({})
        self._cleared = None
        self._settled = []

    def report(self, batch: JournalBatch) -> None:
        """Add the recorded changes to a batch, and start recording again."""
        self._is_noted = False
        if self._cleared is not None:
            batch.cleared.append(self._cleared)
            self._cleared = None
        if self._rows:
            batch.rows.extend(self._rows.values())
            self._rows = {}
            self._rows_bytes = 0
        if self._settled:
            batch.settled.extend(self._settled)
            self._settled = []
        if self._counts:
            batch.delivery_counts.update(self._counts)
            self._counts = {}
        batch.message_logs.append(LogState(self.number, self.messages, self.body_bytes, self.last, self.delivered_to))


def _only(table: dict[int, T], first: int, positions: Mapping[int, int]) -> dict[int, T]:
    """Return the entries of a table at these positions, in time proportional to the smaller of both."""
    if len(positions) < len(table):
        return {first + each: table[first + each] for each in positions if first + each in table}
    return {id_: each for id_, each in table.items() if id_ - first in positions}
