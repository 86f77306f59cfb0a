"""What the journal gives the store: batches of messages, settlements and definitions, as values."""

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
    """Whose messages a message log holds: those of one priority of a "queue", or what an "exchange" delays, or what a
    "transaction" does.
    """

    kind: str
    vhost: str
    name: str
    priority: int = 0


class DurabilityTicket:
    """Messages of a publish that is confirmed when all of them are safe: on the disk, or done with before that.

    `left` counts those that are not; `call` is called when none is. `acks` and `last` are for its owner: how many
    publishes are then to be acked, and the last one's number.
    """

    __slots__ = ("acks", "call", "is_refused", "last", "left")

    def __init__(self) -> None:
        self.left = 0
        self.acks = 0
        self.last = 0
        self.is_refused = False
        """Can one of them never be safe?"""
        self.call: Callable[[], None] | None = None

    def used(self) -> None:
        """One of the messages was consumed before it was on disk."""
        self.left -= 1
        if not self.left and self.call is not None:
            self.call()

    def kept(self) -> None:
        """All that was left is on disk."""
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
    """All rows from `first` to `last` are gone, but for those at the positions in `kept`, `first` being at 0."""

    first: int
    last: int
    kept: tuple[int, ...] = ()


class LogState(NamedTuple):
    """The state of a message log: how many messages it has, and bytes of their bodies; the last position that it has
    seen, and the last that was handed out. A restart needs no more than this to open it.
    """

    number: int
    messages: int
    body_bytes: int
    last: int
    delivered: int


class RedeliveryMark(NamedTuple):
    """How often a message has come back, and its place among those of its log that wait again, from 1; 0 for none."""

    delivery_count: int
    turn: int


class JournalBatch(NamedTuple):
    """What the store writes at once, or not at all; in this order."""

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
    """What cannot be written, whatever the disk does: the store's to fill, and empty until then."""

    @property
    def is_empty(self) -> bool:
        return not any(self[2:])


class RejectedWrite(NamedTuple):
    """What of a batch can never be written: a message by its id, or a definition by its key."""

    what: int | str
    error: Exception


class RecoveredLog(NamedTuple):
    """A message log as it is found again."""

    owner: LogOwner
    state: LogState
