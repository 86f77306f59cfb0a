"""Records that wait to be read: in order, and bounded; those for which there is no room are dropped and counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.record import Record

PrintedRecord: TypeAlias = Record | MessageRecord | Finding

Queued = TypeVar("Queued")
"""A record, or what records are made of later."""


class RecordQueue(Generic[Queued]):
    """Takes records without ever holding up who makes them, and hands them out in batches.

    `backlog` bounds the records that wait, `memory` the bytes that they and those that were taken last may take. `wake`
    is called when there is something to take. What is dropped is counted for the tap named `reader`. When there is no
    room, new records are dropped; if it `keeps_newest`, the oldest that wait. What is added may count for several.
    """

    def __init__(
        self,
        backlog: int,
        memory: int,
        metrics: Metrics,
        wake: Callable[[], None],
        *,
        reader: str = "print",
        keeps_newest: bool = False,
    ) -> None:
        self.wake = wake
        self._keeps_newest = keeps_newest
        self._backlog = backlog
        self._memory = memory
        self._drops = metrics.records_dropped.labels(reader)  # shown from now on, at 0
        self._waiting: deque[tuple[Queued, int, int]] = deque()
        self._waiting_count = 0
        self._waiting_size = 0
        self._taken_size = 0
        self._dropped = 0
        self._is_closed = False

    @property
    def is_half_full(self) -> bool:
        """Is it time to take what waits, before there is no room?"""
        return 2 * self._waiting_count >= self._backlog or 2 * self._waiting_size >= self._memory

    def close(self) -> None:
        """Take no more records: nothing reads them."""
        self._is_closed = True
        self._waiting.clear()
        self._waiting_count = self._waiting_size = self._taken_size = 0

    def take_records(self) -> deque[Queued]:
        """The records that wait. Those that were taken before are assumed to be printed by now."""
        records = deque(record for record, _, _ in self._waiting)
        self._waiting.clear()
        self._waiting_count = 0
        self._taken_size, self._waiting_size = self._waiting_size, 0
        return records

    def waiting_records(self) -> list[Queued]:
        """The records that wait, which they go on doing."""
        return [record for record, _, _ in self._waiting]

    def take_dropped(self) -> int:
        """How many records there was no room for since the last call."""
        dropped, self._dropped = self._dropped, 0
        return dropped

    def has_room(self, cost: int, count: int = 1) -> bool:
        """Is there room for one more record, of `cost` bytes? Else `count` are dropped."""
        if self._is_closed:
            return False
        while True:
            used = self._waiting_size + self._taken_size
            if self._waiting_count < self._backlog and used + cost <= self._memory:
                return True
            if not self._keeps_newest or not self._waiting:
                self.drop(count)
                return False
            _, size, dropped = self._waiting.popleft()
            self._waiting_count -= dropped
            self._waiting_size -= size
            self.drop(dropped)

    def drop(self, count: int) -> None:
        """Count records that are not to be had."""
        self._dropped += count
        self._drops.inc(count)

    def add(self, record: Queued, cost: int, count: int = 1) -> None:
        """Take a record for which there is room; it counts for so many."""
        self._waiting.append((record, cost, count))
        self._waiting_count += count
        self._waiting_size += cost
