"""Queries for rows of a ring: before a row, after a row, or in a time range."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from amqproxy.capture.decoded import DecodedFrames
from amqproxy.dashboard.frame_selection import FrameSelection
from amqproxy.dashboard.list_query import ListQuery
from amqproxy.dashboard.ring import Ring
from amqproxy.dashboard.ring_entry import RingEntry
from amqproxy.dashboard.row_writer import RowWriter
from amqproxy.dashboard.selected import Selected, narrowed

LOOK_AHEAD = 4096
"""Entries after the last requested row in which its command may be completed."""


BLOCK_FRAMES = 20_000
"""Frames of a block; blocks are searched completely, the newest first."""

WARM_UP = 2048
"""Entries before a block that are read for commands that are incomplete where the block begins."""

MAX_PAGE_BYTES = 16 * 1024 * 1024
"""Approximate limit on the bytes of one page: a row has all headers of a message, which may be very many."""

SEARCH_SECONDS = 2.0
"""Seconds after which a search returns the rows found so far, and where to continue."""


class Page(NamedTuple):
    """Rows as JSON, the newest last; `has_more` if further rows may exist in the requested direction.

    These are before the row `searched`, or after it for a query with `after`. `warning` is why the filter fails on some
    rows, which are selected.
    """

    rows: list[bytes]
    has_more: bool
    searched: int = 0
    warning: str | None = None


def entries_for(ring: Ring, query: ListQuery) -> list[RingEntry]:
    """Return the entries that may hold the requested rows; only to be called in the event loop."""
    start = ring.first if query.start_ns is None else ring.number_at(query.start_ns)
    stop = ring.end if query.end_ns is None else ring.number_at(query.end_ns)
    if query.before is not None:
        stop = min(stop, ring.number_of(query.before) + 1 + LOOK_AHEAD)
    return ring.snapshot(start, stop)


def find(
    entries: Sequence[RingEntry],
    selection: FrameSelection,
    query: ListQuery,
    clock: Callable[[], float] = time.monotonic,
) -> Page:
    """Return the requested rows, within `SEARCH_SECONDS`; safe in a thread, since it uses only its arguments."""
    stop_at = clock() + SEARCH_SECONDS
    if query.after is not None:
        page = _find_forwards(entries, selection, query.after, query.limit, lambda: clock() > stop_at)
    else:
        page = _find_backwards(entries, selection, query, lambda: clock() > stop_at)
    return page._replace(warning=selection.take_warning())


def _find_forwards(
    entries: Sequence[RingEntry], selection: FrameSelection, after: int, limit: int, is_over: Callable[[], bool]
) -> Page:
    """Return the first rows after `after`."""
    writer = RowWriter()
    rows: list[bytes] = []
    searched = after
    looked_at = size = 0
    for entry in entries:
        if selection.chooses_all and entry.seq + entry.count - 1 <= after:
            continue
        more = [row for decoded, seqs in selection.select(entry, after) for row in writer.rows(decoded, seqs)]
        rows += more
        size += sum(map(len, more))
        searched = max(searched, entry.seq + entry.count - 1)
        looked_at += entry.count
        if len(rows) > limit:
            break
        if size > MAX_PAGE_BYTES:
            return Page(rows[:limit], True, searched)
        if looked_at > BLOCK_FRAMES and searched > after:
            looked_at = 0
            if is_over():
                return Page(rows[:limit], True, searched)
    return Page(rows[:limit], len(rows) > limit, searched)


def _find_backwards(
    entries: Sequence[RingEntry], selection: FrameSelection, query: ListQuery, is_over: Callable[[], bool]
) -> Page:
    """Return the last rows before `query.before`, or of all, searching blocks from the newest on."""
    stop = len(entries)
    end = entries[-1].seq + entries[-1].count if entries else 0
    if query.before is not None and query.before < end:
        end = query.before
        while stop and entries[stop - 1].seq >= end:
            stop -= 1
    blocks: deque[list[Selected]] = deque()
    count = 0
    while stop and count <= query.limit:
        if blocks and is_over():
            break
        start, frames = stop, 0
        while start and frames < BLOCK_FRAMES:
            start -= 1
            frames += entries[start].count
        found = list(_block(entries, start, stop, end, selection))
        count += sum(len(each.seqs) for each in found)
        blocks.appendleft(found)
        stop, end = start, entries[start].seq
    writer = RowWriter()
    newest: deque[list[bytes]] = deque()
    left, size, first_seq = query.limit + 1, 0, end
    for decoded, seqs in (each for block in reversed(blocks) for each in reversed(block)):
        if left <= 0:
            break
        if size > MAX_PAGE_BYTES:
            stop, end = 1, first_seq
            break
        newest.appendleft(writer.rows(decoded, seqs))
        left -= len(seqs)
        size += sum(map(len, newest[0]))
        first_seq = seqs[0]
    rows = [row for some in newest for row in some]
    return Page(rows[-query.limit :], len(rows) > query.limit or stop > 0, end)


def _block(
    entries: Sequence[RingEntry], start: int, stop: int, end: int, selection: FrameSelection
) -> Iterator[Selected]:
    """Yield the selected rows before `end` of the entries from `start` to `stop`."""
    if not entries[start:stop]:
        return
    selection.forget()
    begin = entries[start].seq
    warm_up = 0 if selection.chooses_all else WARM_UP
    behind = LOOK_AHEAD if selection.waits(entries[start:stop]) else 0
    for number in range(max(0, start - warm_up), min(len(entries), stop + behind)):
        for decoded, seqs in selection.select(entries[number]):
            if seqs[0] >= end or seqs[-1] < begin:
                continue
            found: Selected | None = Selected(decoded, seqs)
            if seqs[0] < begin or seqs[-1] >= end:
                assert isinstance(decoded, DecodedFrames)  # everything else has one row
                found = narrowed(decoded, seqs, lambda seq, frame: begin <= seq < end)
            if found is not None:
                yield found
