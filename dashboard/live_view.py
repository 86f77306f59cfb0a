"""One list in one browser, as it grows: a cursor in a ring, with a filter, a place and a credit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from amqproxy.dashboard.finding_selection import FindingSelection
from amqproxy.dashboard.frame_selection import FrameSelection
from amqproxy.dashboard.message_ring import MessageRing
from amqproxy.dashboard.message_selection import MessageSelection
from amqproxy.dashboard.ring import Ring
from amqproxy.dashboard.ring_entry import RingEntry
from amqproxy.dashboard.row_writer import RowWriter
from amqproxy.dashboard.shared_rows import SharedRows
from amqproxy.taps.record import encoded

MAX_BATCH_ROWS = 2000

MAX_BATCH_BYTES = 4 * 1024 * 1024
"""Approximate limit on the bytes of a batch: a row has all headers of a message, which may be very many."""

BUILD_SECONDS = 0.008
"""Seconds for which a batch is built before other views have their turn."""

FRESH_PART = 0.2
"""Fraction of the maximum age down to which a late view skips, so that it is not late again at once."""

GRACE_SECONDS = 3.0
"""Seconds before a view began whose rows are shown at any age, since the browser asked for them late."""

MAX_CREDIT = 2
"""Maximum number of batches that a browser may be sent before it grants more credit."""


class _Numbered(msgspec.Struct):
    """The number of an encoded row."""

    seq: int


_number = msgspec.json.Decoder(_Numbered)


class Batch(NamedTuple):
    """Rows for a browser; `skipped` counts rows that were overwritten or too old before the view had its turn."""

    rows: list[bytes]
    skipped: int
    newest_ns: int
    seq: int
    """Last row that has been examined; all selected rows up to it have been sent."""
    warning: str | None
    """Reason of the filter's first failure on a row."""

    def to_json(self, view: bytes) -> bytes:
        """Encode the batch as a message; `view` is the view's name as JSON."""
        return b'{"type":"batch","view":%b,"rows":[%b],"skipped":%d,"newest":%d,"seq":%d,"warning":%b}' % (
            view,
            b",".join(self.rows),
            self.skipped,
            self.newest_ns,
            self.seq,
            encoded(self.warning),
        )


class AgeLimit:
    """Limit on the age of rows that are still sent; none if `max_age` is `None`."""

    __slots__ = ("_began_at", "_clock", "_max_age")

    def __init__(self, max_age: float | None, clock: Callable[[], float]) -> None:
        self._max_age = max_age
        self._clock = clock
        self._began_at = clock()

    def __call__(self) -> Callable[[float], bool]:
        """Return the predicate for rows to skip at this moment; it has to be called with their times in order."""
        if self._max_age is None:
            return lambda came_at: False
        now, late, began_at = self._clock(), self._began_at - GRACE_SECONDS, self._began_at
        oldest, fresh = now - self._max_age, now - self._max_age * FRESH_PART

        def is_skipped(came_at: float) -> bool:
            nonlocal oldest
            if came_at >= oldest or late <= came_at < began_at:
                return False
            oldest = fresh
            return True

        return is_skipped


class View(Protocol):
    """A live list in a browser."""

    credit: int

    @property
    def has_more(self) -> bool:
        """Whether rows remain that have not been examined or sent."""

    def grant(self, batches: int) -> None:
        """Add credit for `batches` more batches, up to `MAX_CREDIT`."""

    def batch(self) -> Batch | None:
        """Return the next rows for one batch of credit; `None` if there are none, or no credit is left."""


class FrameView:
    """Live view of a ring's frames after the row `after`; if that is `None`, of new frames only.

    `shared` are the rows of all views of this ring that select everything.
    """

    def __init__(
        self,
        ring: Ring,
        shared: SharedRows,
        selection: FrameSelection,
        after: int | None = None,
        *,
        credit: int = MAX_CREDIT,
        max_age: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ring = ring
        self._shared = shared
        self._selection = selection
        self._writer = RowWriter()
        self._age_limit = AgeLimit(max_age, clock)
        self._clock = clock
        self._begin = self._after = ring.next_seq - 1 if after is None else after
        self._next = ring.number_of(self._after + 1)
        self._rest: list[bytes] = []
        self._skipped = 0
        self.credit = min(credit, MAX_CREDIT)

    @property
    def has_more(self) -> bool:
        return bool(self._rest) or self._next < self._ring.end

    def grant(self, batches: int) -> None:
        self.credit = min(self.credit + batches, MAX_CREDIT)

    def batch(self) -> Batch | None:
        if self.credit <= 0:
            return None
        rows, self._rest = self._rest, []
        size = sum(map(len, rows))
        stop = self._clock() + BUILD_SECONDS
        self._skip()
        entries = self._ring.entries
        while len(rows) < MAX_BATCH_ROWS and (entry := entries.get(self._next)) is not None:
            more: list[bytes] = []
            if self._selection.chooses_all and entry.seq > self._begin:
                more = self._shared.rows_of(self._next, entry)
            else:
                for decoded, seqs in self._selection.select(entry, self._begin):
                    more += self._writer.rows(decoded, seqs)
            rows += more
            size += sum(map(len, more))
            self._next += 1
            self._after = max(self._after, entry.seq + entry.count - 1)
            if size > MAX_BATCH_BYTES or self._clock() > stop:
                break
        if not rows and not self._skipped:
            return None
        self.credit -= 1
        self._rest = rows[MAX_BATCH_ROWS:]
        looked_up_to = _number.decode(self._rest[0]).seq - 1 if self._rest else self._after
        skipped, self._skipped = self._skipped, 0
        warning = self._selection.take_warning()
        return Batch(rows[:MAX_BATCH_ROWS], skipped, self._ring.newest_ns, looked_up_to, warning)

    def _skip(self) -> None:
        """Skip rows that were overwritten or have become too old, and count them."""
        ring = self._ring
        first = max(self._next, ring.first)
        is_too_old = self._age_limit()
        while (entry := ring.entries.get(first)) is not None and is_too_old(entry.came_at):
            first += 1
        if first == self._next:
            return
        self._next = first
        seq = _seq(ring, ring.entries.get(first))
        self._skipped += max(0, seq - 1 - self._after)
        self._after = max(self._after, seq - 1)


def _seq(ring: Ring, entry: RingEntry | None) -> int:
    return ring.next_seq if entry is None else entry.seq


class MessageView:
    """Live view of messages or findings after the row `after`; if that is `None`, of new ones only."""

    def __init__(
        self,
        ring: MessageRing,
        selection: MessageSelection | FindingSelection,
        after: int | None = None,
        *,
        credit: int = MAX_CREDIT,
        max_age: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ring = ring
        self._selection = selection
        self._age_limit = AgeLimit(max_age, clock)
        self._clock = clock
        self._next = ring.next_seq if after is None else after + 1
        self.credit = min(credit, MAX_CREDIT)

    @property
    def has_more(self) -> bool:
        return self._next < self._ring.next_seq

    def grant(self, batches: int) -> None:
        self.credit = min(self.credit + batches, MAX_CREDIT)

    def batch(self) -> Batch | None:
        if self.credit <= 0:
            return None
        skipped = self._skip()
        rows: list[bytes] = []
        size = 0
        stop = self._clock() + BUILD_SECONDS
        while len(rows) < MAX_BATCH_ROWS and (row := self._ring.rows.get(self._next)) is not None:
            self._next += 1
            if self._selection.shows(row):
                rows.append(row.to_json())
                size += len(rows[-1])
            if size > MAX_BATCH_BYTES or self._clock() > stop:
                break
        if not rows and not skipped:
            return None
        self.credit -= 1
        return Batch(rows, skipped, self._ring.newest_ns, self._next - 1, self._selection.take_warning())

    def _skip(self) -> int:
        """Skip rows that were overwritten or have become too old, and return their number."""
        first = max(self._next, self._ring.first_seq)
        is_too_old = self._age_limit()
        while (row := self._ring.rows.get(first)) is not None and is_too_old(row.came_at):
            first += 1
        skipped, self._next = first - self._next, first
        return skipped
