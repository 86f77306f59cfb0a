"""Queries for messages and findings: before a row, after a row, or in a time range."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from amqproxy.dashboard.finding_selection import FindingSelection
from amqproxy.dashboard.frame_query import MAX_PAGE_BYTES, SEARCH_SECONDS, Page
from amqproxy.dashboard.list_query import ListQuery
from amqproxy.dashboard.message_ring import MessageRow
from amqproxy.dashboard.message_selection import MessageSelection

CHECKED = 256
"""Rows that are examined between two checks of the clock."""


def find_messages(
    rows: list[MessageRow],
    selection: MessageSelection | FindingSelection,
    query: ListQuery,
    clock: Callable[[], float] = time.monotonic,
) -> Page:
    """Return the requested rows, within `SEARCH_SECONDS`; safe in a thread, since it uses only its arguments."""
    stop_at = clock() + SEARCH_SECONDS
    is_forwards = query.after is not None
    ordered: Iterable[MessageRow] = rows if is_forwards else reversed(rows)
    found: list[MessageRow] = []
    has_more = False
    size = 0
    searched = query.after if query.after is not None else query.before or 0
    for looked_at, row in enumerate(ordered, 1):
        if (query.before is not None and row.seq >= query.before) or (
            query.after is not None and row.seq <= query.after
        ):
            continue
        if query.holds(row.ts_ns) and selection.shows(row):
            found.append(row)
            size += len(row.shown or row.json)
        searched = row.seq
        if len(found) > query.limit or size > MAX_PAGE_BYTES or (looked_at % CHECKED == 0 and clock() > stop_at):
            has_more = True
            break
    found = found[: query.limit]
    shown = [row.to_json() for row in (found if is_forwards else reversed(found))]
    return Page(shown, has_more, searched, selection.take_warning())
