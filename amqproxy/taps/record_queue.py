"""Bounded queue of records that wait to be read; records that do not fit are dropped and counted."""

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
"""A record, or an item from which records are made later."""


class RecordQueue(Generic[Queued]):
    """Queue of records that never blocks their producer, and hands them out in batches.

    `backlog` bounds the waiting records, `memory` the bytes of these and of the last batch taken. `wake` is called when
    there are records to take. Dropped records are counted for the tap named `reader`. When the queue is full, new
    records are dropped, or if it `keeps_newest`, the oldest waiting ones. An item may count for several records.
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
        self._drops = metrics.records_dropped.labels(reader)  # exported from the start, at 0
        self._waiting: deque[tuple[Queued, int, int]] = deque()
        self._waiting_count = 0
        self._waiting_size = 0
        self._taken_size = 0
        self._dropped = 0
        self._is_closed = False

    @property
    def is_half_full(self) -> bool:
        """Whether the waiting records should be taken soon, before the queue is full."""
        return 2 * self._waiting_count >= self._backlog or 2 * self._waiting_size >= self._memory

    def close(self) -> None:
        """Discard the waiting records, and take no more, since nothing reads them."""
        self._is_closed = True
        self._waiting.clear()
        self._waiting_count = self._waiting_size = self._taken_size = 0

    def take_records(self) -> deque[Queued]:
        """Remove and return the waiting records. The previous batch is assumed to be printed."""
        records = deque(record for record, _, _ in self._waiting)
        self._waiting.clear()
        self._waiting_count = 0
        self._taken_size, self._waiting_size = self._waiting_size, 0
        return records

    def waiting_records(self) -> list[Queued]:
        """Return the waiting records without removing them."""
        return [record for record, _, _ in self._waiting]

    def take_dropped(self) -> int:
        """Return the number of records dropped since the last call."""
        dropped, self._dropped = self._dropped, 0
        return dropped

    def has_room(self, cost: int, count: int = 1) -> bool:
        """Return whether a record of `cost` bytes fits; if not, count `count` records as dropped."""
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
        """Count dropped records."""
        self._dropped += count
        self._drops.inc(count)

    def add(self, record: Queued, cost: int, count: int = 1) -> None:
        """Add a record, for which there must be room; it counts for `count` records."""
        self._waiting.append((record, cost, count))
        self._waiting_count += count
        self._waiting_size += cost
