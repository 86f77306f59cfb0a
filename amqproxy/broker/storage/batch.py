"""Batches of messages, settlements and definitions that the journal gives to the store, as values."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from amqproxy.broker.message import Message
from amqproxy.broker.storage.definition_records import DefinitionRecord

POSITION_BITS = 43
MAX_POSITION = (1 << POSITION_BITS) - 1
"""At 100,000 messages a second, one message log lasts for nearly three years."""

MAX_MESSAGE_LOGS = (1 << (63 - POSITION_BITS)) - 1


class LogOwner(NamedTuple):
    """The owner of a message log: one priority of a "queue", a delaying "exchange", or a "transaction"."""

    kind: str
    vhost: str
    name: str
    priority: int = 0


class DurabilityTicket:
    """Messages whose publishes are confirmed when all of them are safe: on disk, or settled before that.

    `left` counts those that are not safe; `call` is called when it reaches 0. `acks` and `last` belong to the owner:
    the number of publishes to ack then, and the number of the last one.
    """

    __slots__ = ("acks", "call", "is_refused", "last", "left")

    def __init__(self) -> None:
        self.left = 0
        self.acks = 0
        self.last = 0
        self.is_refused = False
        """Whether one of them can never be written."""
        self.call: Callable[[], None] | None = None

    def used(self) -> None:
        """Count a message that was consumed before it was on disk."""
        self.left -= 1
        if not self.left and self.call is not None:
            self.call()

    def kept(self) -> None:
        """Count all remaining messages as on disk."""
        if self.left:
            self.left = 0
            if self.call is not None:
                self.call()


class JournalRow(NamedTuple):
    """A message in its place. `expires_at` is in the wall clock's seconds, `shared` the number of its body, or None."""

    id: int
    size: int
    expires_at: float | None
    shared: int | None
    message: Message
    ticket: DurabilityTicket | None = None


class ClearedRange(NamedTuple):
    """A range of deleted rows from `first` to `last`, except the positions in `kept`, which count from `first`."""

    first: int
    last: int
    kept: tuple[int, ...] = ()


class LogState(NamedTuple):
    """The state of a message log: its numbers of messages and body bytes, and its last and last delivered positions.

    A restart needs only this to open the log.
    """

    number: int
    messages: int
    body_bytes: int
    last: int
    delivered: int


class RedeliveryMark(NamedTuple):
    """Number of a message's returns, and its place among the log's returned messages, from 1; 0 for none."""

    delivery_count: int
    turn: int


class JournalBatch(NamedTuple):
    """The changes that the store writes in one transaction, in this order."""

    number: int
    size: int
    logs_deleted: list[int]
    cleared: list[ClearedRange]
    logs_created: dict[int, LogOwner]
    rows: list[JournalRow]
    bodies: dict[int, Message]
    settled: list[int]
    bodies_dropped: list[int]
    message_logs: list[LogState]
    delivery_counts: dict[int, RedeliveryMark]
    durables: dict[str, DefinitionRecord | None]
    refused: list[RejectedWrite]
    """Parts that can never be written, filled in by the store."""

    @property
    def is_empty(self) -> bool:
        return not any(self[2:])


class RejectedWrite(NamedTuple):
    """A part of a batch that can never be written: a message by its id, or a definition by its key."""

    what: int | str
    error: Exception


class RecoveredLog(NamedTuple):
    """A message log recovered from the store."""

    owner: LogOwner
    state: LogState
