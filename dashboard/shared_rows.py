"""The newest rows of a ring as JSON, encoded once for all browsers that show the unfiltered list."""

from __future__ import annotations

from amqproxy.dashboard.ring_entry import RingEntry
from amqproxy.dashboard.row_writer import RowWriter

MAX_SHARED_ROWS = 8_192
"""Maximum number of rows that are kept; live views of all browsers read the same newest rows."""


MAX_SHARED_BYTES = 16 * 1024 * 1024
"""Maximum size of the kept rows, in bytes."""


class SharedRows:
    """Encoded rows by entry number; the rows that were encoded first are forgotten first."""

    def __init__(self, rows: int = MAX_SHARED_ROWS, memory: int = MAX_SHARED_BYTES) -> None:
        self._writer = RowWriter()
        self._rows: dict[int, list[bytes]] = {}
        self._max_rows = rows
        self._memory = memory
        self.size = self.memory_used = 0

    def rows_of(self, number: int, entry: RingEntry) -> list[bytes]:
        """Return the rows of the entry with this number in the ring."""
        rows = self._rows.get(number)
        if rows is None:
            rows = self._writer.rows(entry.fresh(), range(entry.seq, entry.seq + entry.count))
            self._rows[number] = rows
            self.size += len(rows)
            self.memory_used += sum(map(len, rows))
            while (self.size > self._max_rows or self.memory_used > self._memory) and len(self._rows) > 1:
                oldest = self._rows.pop(next(iter(self._rows)))
                self.size -= len(oldest)
                self.memory_used -= sum(map(len, oldest))
        return rows
