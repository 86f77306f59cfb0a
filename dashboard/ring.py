"""The most recent traffic in rows with permanent numbers, bounded in bytes and in rows."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable

import msgspec

from amqproxy.capture.decoded import Decoded, DecodedFrames, DecodedProtocolHeader, SkippedBytes, StreamEnded
from amqproxy.dashboard.missing_frames import MissingFrames
from amqproxy.dashboard.ring_entry import RingEntry
from amqproxy.taps.dialects import chunk_of

MAX_ROWS = 2_000_000
"""Maximum number of rows in a ring."""

ENTRY_COST = 640
"""Approximate bytes of an entry besides its frames."""

FRAME_COST = 192
"""Approximate overhead in bytes of a frame that is kept singly."""


class Ring:
    """Entries in at most `memory` bytes and `rows` rows; the oldest are overwritten.

    `notify` calls each listener's `wake` once for all entries that were added since the last call.
    """

    def __init__(self, memory: int, rows: int = MAX_ROWS, clock: Callable[[], float] = time.monotonic) -> None:
        self.memory = memory
        self.rows = rows
        self.entries: dict[int, RingEntry] = {}
        self.first = self.end = 0
        """Numbers of the oldest entry that is kept, and of the next one."""
        self.next_seq = 0
        self.size = 0
        self.newest_ns = 0
        """Time of the newest entry."""
        self._clock = clock
        self._listeners: list[Callable[[], None]] = []

    @property
    def first_seq(self) -> int:
        """The oldest row that is kept, or the next one if there is none."""
        return self.entries[self.first].seq if self.entries else self.next_seq

    @property
    def kept_since_ns(self) -> int | None:
        """Time before which entries are overwritten; `None` if all are kept."""
        return self.entries[self.first].ts_ns if self.first else None

    def append(self, decoded: Decoded | MissingFrames) -> RingEntry:
        """Append decoded traffic, or a note that frames are missing."""
        count = 1
        cost = ENTRY_COST
        if isinstance(decoded, DecodedFrames):
            frames = decoded.frames
            chunk = chunk_of(frames)
            count = len(frames)
            cost += chunk.memory(FRAME_COST, 1)
            if chunk is frames:
                decoded = msgspec.structs.replace(decoded, frames=chunk.unmade())
        elif isinstance(decoded, StreamEnded):
            count = 0
        elif isinstance(decoded, DecodedProtocolHeader | SkippedBytes):
            cost += len(decoded.data)
        entry = RingEntry(self.next_seq, count, self._clock(), decoded, cost)
        self.entries[self.end] = entry
        self.end += 1
        self.next_seq += count
        self.size += cost
        self.newest_ns = decoded.ts_ns
        while (self.size > self.memory or self.next_seq - self.first_seq > self.rows) and len(self.entries) > 1:
            self.size -= self.entries.pop(self.first).cost
            self.first += 1
        return entry

    # --- reading

    def unnumbered(self, decoded: Decoded) -> RingEntry:
        """Return an entry without a row for traffic that arrives now and is not kept."""
        return RingEntry(self.next_seq, 0, self._clock(), decoded, 0)

    def number_of(self, seq: int) -> int:
        """Return the number of the entry with this row, or of the first one after it; the oldest if the row is gone."""
        if seq >= self.next_seq:
            return self.end
        numbers = range(self.first, self.end)
        return self.first + max(0, bisect_right(numbers, seq, key=lambda number: self.entries[number].seq) - 1)

    def number_at(self, ts_ns: int) -> int:
        """Return the number of the first entry at or after this time; captures may be slightly out of order."""
        numbers = range(self.first, self.end)
        return self.first + bisect_left(numbers, ts_ns, key=lambda number: self.entries[number].ts_ns)

    def entry_of(self, seq: int) -> RingEntry | None:
        """Return the entry with this row; `None` if it is gone or has not arrived."""
        if not self.first_seq <= seq < self.next_seq:
            return None
        number = self.number_of(seq)
        while (entry := self.entries[number]).seq + entry.count <= seq:  # the end of a connection has no row
            number += 1
        return entry

    def snapshot(self, start: int | None = None, stop: int | None = None) -> list[RingEntry]:
        """Return the entries from `start` to `stop` as a list that a thread may read while the ring changes."""
        start = self.first if start is None else max(start, self.first)
        stop = self.end if stop is None else min(stop, self.end)
        return [self.entries[number] for number in range(start, stop)]

    # --- who is woken

    def listen(self, wake: Callable[[], None]) -> None:
        """Register `wake` to be called when entries have been added."""
        self._listeners.append(wake)

    def forget(self, wake: Callable[[], None]) -> None:
        """Unregister `wake`."""
        if wake in self._listeners:
            self._listeners.remove(wake)

    def notify(self) -> None:
        """Wake the listeners."""
        for wake in self._listeners:
            wake()
