"""The bounded queue of entries between the sessions and the writing thread."""

from __future__ import annotations

from collections import deque
from contextlib import suppress

from amqproxy.recording.entry import Entry

ENTRY_COST = 512
"""Approximate overhead of an entry in bytes, besides its data."""

OVERSHOOT = 1024 * 1024
"""Bytes above its memory that a queue still accepts while sessions wait for it.

Sessions may have received that much before they wait.
"""

BATCH = 4 * 1024 * 1024
"""Bytes worth writing at once: each batch makes the two threads take turns, which costs both of them time."""


class EntryQueue:
    """A queue of at most `memory` bytes of entries; one thread adds and another takes, and each keeps its own counters.

    While `is_waited_for`, sessions wait when it is full, and the queue still accepts the data that they have received
    by then. `batch` is the number of bytes to take at once, if there is time.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.batch = min(BATCH, memory // 4)
        self.is_waited_for = False
        self._entries: deque[Entry] = deque()
        self._added = 0
        self._taken = 0
        self._discarded = 0

    @property
    def size(self) -> int:
        """Bytes waiting in the queue."""
        return self._added - self._taken - self._discarded

    @property
    def taken(self) -> int:
        """Total bytes taken from the queue and processed."""
        return self._taken

    def has_room(self, size: int) -> bool:
        """Whether an entry with `size` bytes of data fits."""
        if self.is_waited_for:
            return self.size <= self.memory + OVERSHOOT
        return self.size + ENTRY_COST + size <= self.memory

    def offer(self, entry: Entry, size: int) -> int:
        """Add an entry of `size` bytes, overhead included, if it fits; return how many wait now, 0 if it does not."""
        added = self._added + size
        waiting = added - self._taken - self._discarded
        if waiting > self.memory:
            return 0
        self._added = added
        self._entries.append(entry)
        return waiting

    def add(self, entry: Entry) -> None:
        self._added += ENTRY_COST + len(entry.data)
        self._entries.append(entry)

    def take(self, most: int) -> list[Entry]:
        """Return the next entries, of about `most` bytes of data; their memory counts as used until they are `done`."""
        taken: list[Entry] = []
        size = 0
        with suppress(IndexError):  # the other thread may discard the last entry in between
            while size < most:
                entry = self._entries.popleft()
                size += len(entry.data)
                taken.append(entry)
        return taken

    def done(self, entries: list[Entry]) -> None:
        """Release the memory of entries that were taken."""
        self._taken += _size_of(entries)

    def discard(self) -> list[Entry]:
        """Remove and return all entries that were not taken, releasing their memory; only for the thread that adds."""
        discarded: list[Entry] = []
        with suppress(IndexError):
            while True:
                discarded.append(self._entries.popleft())
        self._discarded += _size_of(discarded)
        return discarded


def _size_of(entries: list[Entry]) -> int:
    return ENTRY_COST * len(entries) + sum([len(entry.data) for entry in entries])
