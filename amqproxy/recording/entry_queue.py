"""Entries on their way from the sessions to the thread that writes them."""

from __future__ import annotations

from collections import deque
from contextlib import suppress

from amqproxy.recording.entry import Entry

ENTRY_COST = 512
"""Bytes that an entry takes, about, besides its data."""

OVERSHOOT = 1024 * 1024
"""Bytes above its memory from which on also a queue that is waited for has no room: sessions may have received so much
before they wait."""

BATCH = 4 * 1024 * 1024
"""Bytes that are worth to be written at once: each time, threads have to take turns, and that costs them both."""


class EntryQueue:
    """Entries of at most `memory` bytes. One thread adds, another takes: each counts what it does itself.

    While `is_waited_for`, sessions wait when it gets full: what they have received by then has room.
    `batch` is how many bytes are to be taken at once, if there is time.
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
        """Bytes that wait."""
        return self._added - self._taken - self._discarded

    @property
    def taken(self) -> int:
        """Bytes that do not wait any more, of all that were ever added."""
        return self._taken

    def has_room(self, size: int) -> bool:
        """Is there room for so many bytes of data?"""
        if self.is_waited_for:
            return self.size <= self.memory + OVERSHOOT
        return self.size + ENTRY_COST + size <= self.memory

    def offer(self, entry: Entry, size: int) -> bool:
        """Add an entry of `size` bytes in all if it fits into the memory; whether it did."""
        added = self._added + size
        if added - self._taken - self._discarded > self.memory:
            return False
        self._added = added
        self._entries.append(entry)
        return True

    def add(self, entry: Entry) -> None:
        self._added += ENTRY_COST + len(entry.data)
        self._entries.append(entry)

    def take(self, most: int) -> list[Entry]:
        """The next entries: of `most` bytes, or a few more. They count until they are `done`."""
        taken: list[Entry] = []
        size = 0
        with suppress(IndexError):  # or the other thread could discard the last one between two looks
            while size < most:
                entry = self._entries.popleft()
                size += len(entry.data)
                taken.append(entry)
        return taken

    def done(self, entries: list[Entry]) -> None:
        """These take no memory any more."""
        self._taken += _size_of(entries)

    def discard(self) -> list[Entry]:
        """All that is not taken yet: that takes no memory any more. For the thread that adds."""
        discarded: list[Entry] = []
        with suppress(IndexError):
            while True:
                discarded.append(self._entries.popleft())
        self._discarded += _size_of(discarded)
        return discarded


def _size_of(entries: list[Entry]) -> int:
    return ENTRY_COST * len(entries) + sum([len(entry.data) for entry in entries])
