"""One list in one browser, as it grows: a cursor in a ring, with a filter, a place and a credit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from dashboard.frame_selection import FrameSelection
from dashboard.message_ring import MessageRing
from dashboard.message_selection import MessageSelection
from dashboard.ring import Ring, RingEntry
from dashboard.row_writer import RowWriter

MAX_BATCH_ROWS = 2000

MAX_BATCH_BYTES = 4 * 1024 * 1024
"""Bytes of the rows of a batch, about: a row has all headers of a message, which may be very many."""

BUILD_SECONDS = 0.008
"""How long rows are looked for before others have their turn."""

FRESH_PART = 0.2
"""What is too old is skipped up to what has this part of the age, so that this is not so again at once."""

GRACE_SECONDS = 3.0
"""What came so shortly before a view began is shown, however old it may be by then: the browser asked for it late."""

MAX_CREDIT = 2
"""Batches that a browser may be sent before it has to ask for more."""


class _Numbered(msgspec.Struct):
    """A row, as far as its number."""

    seq: int


_number = msgspec.json.Decoder(_Numbered)


class Batch(NamedTuple):
    """Rows for a browser; `skipped` others were too old, or overwritten, before it had its turn."""

    rows: list[bytes]
    skipped: int
    newest_ns: int
    seq: int
    """All rows up to this one have been looked at, and sent if they were selected."""

    def to_json(self, view: bytes) -> bytes:
        """The message that it is; `view` is the view's name as JSON."""
        return b'{"type":"batch","view":%b,"rows":[%b],"skipped":%d,"newest":%d,"seq":%d}' % (
            view,
            b",".join(self.rows),
            self.skipped,
            self.newest_ns,
            self.seq,
        )


class AgeLimit:
    """What is too old to be sent by now; nothing, if `max_age` is None."""

    __slots__ = ("_began_at", "_clock", "_max_age")

    def __init__(self, max_age: float | None, clock: Callable[[], float]) -> None:
        self._max_age = max_age
        self._clock = clock
        self._began_at = clock()

    def __call__(self) -> Callable[[float], bool]:
        """Is what came at a time to be skipped, as things stand now? To be asked in order, from the next that comes."""
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
    """A list in a browser, as it grows."""

    credit: int

    @property
    def has_more(self) -> bool:
        """Is there something that was not looked at, or not sent?"""

    def grant(self, batches: int) -> None:
        """So many batches more may be sent."""

    def batch(self) -> Batch | None:
        """The next rows, for one batch of credit; None where there are none so far."""


class FrameView:
    """The frames of a ring that are behind the row `after`, or that come from now on if that is None."""

    def __init__(
        self,
        ring: Ring,
        selection: FrameSelection,
        after: int | None = None,
        *,
        credit: int = MAX_CREDIT,
        max_age: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ring = ring
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
                more = self._ring.shared.rows_of(self._next, entry)
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
        return Batch(rows[:MAX_BATCH_ROWS], skipped, self._ring.newest_ns, looked_up_to)

    def _skip(self) -> None:
        """Pass over what was overwritten, and what came too long ago."""
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
    """The messages, or the findings, that are behind the row `after`, or that come from now on if that is None."""

    def __init__(
        self,
        ring: MessageRing,
        selection: MessageSelection,
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
        return Batch(rows, skipped, self._ring.newest_ns, self._next - 1)

    def _skip(self) -> int:
        """Pass over what was overwritten, and what came too long ago: how many these are."""
        first = max(self._next, self._ring.first_seq)
        is_too_old = self._age_limit()
        while (row := self._ring.rows.get(first)) is not None and is_too_old(row.came_at):
            first += 1
        skipped, self._next = first - self._next, first
        return skipped
