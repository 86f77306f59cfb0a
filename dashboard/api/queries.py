"""Query parameters that the lists of the API share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query

from amqproxy.capture.selection.time_window import moment
from amqproxy.dashboard.api.dependencies import MAX_INTEGER, SourceOf
from amqproxy.dashboard.frame_selection import FrameSelection
from amqproxy.dashboard.list_query import ListQuery
from amqproxy.dashboard.message_selection import MessageSelection
from amqproxy.dashboard.problem import Problem
from amqproxy.dashboard.selection import Place
from amqproxy.dashboard.source import Source
from amqproxy.rules.matching.tokens import TextError

MAX_ROWS = 10_000
"""Maximum number of rows in one response."""

MAX_EXPRESSION = 10_000
"""Maximum length of a filter, in characters."""

Text = Annotated[str | None, Query(max_length=MAX_EXPRESSION)]
Seq = Annotated[int | None, Query(ge=-1, le=MAX_INTEGER)]
Channel = Annotated[int | None, Query(ge=0, le=65535)]


def list_query(
    source: SourceOf,
    filter: Text = None,
    faults: bool = False,
    connection: Text = None,
    channel: Channel = None,
    before: Seq = None,
    after: Seq = None,
    limit: Annotated[int, Query(ge=1, le=MAX_ROWS)] = 500,
    start: Text = None,
    end: Text = None,
) -> ListQuery:
    """Return the query of a request; `Problem` if a time is invalid."""
    ring = source.ring
    first_ns = ring.entries[ring.first].ts_ns if ring.entries else 0
    return ListQuery(
        filter=filter or None,
        faults=faults,
        place=Place(connection=connection or None, channel=channel),
        before=before,
        after=after,
        limit=limit,
        start_ns=time_ns("start", start, first_ns),
        end_ns=time_ns("end", end, first_ns),
    )


ListQueryOf = Annotated[ListQuery, Depends(list_query)]


def time_ns(name: str, text: str | None, first_ns: int) -> int | None:
    """Parse a time as `--start` accepts it, or in nanoseconds since 1970; `Problem` if it is invalid."""
    if not text:
        return None
    if text.isascii() and text.isdecimal() and 15 <= len(text) <= 19:
        return int(text)
    try:
        return moment(text).at(first_ns)
    except (ValueError, OverflowError) as error:
        raise Problem(400, f"{name}: {error}") from None


def frame_selection(source: Source, query: ListQuery) -> FrameSelection:
    """Return the selection of frames for a query; `Problem` if its filter is invalid."""
    try:
        return FrameSelection(query.filter, query.place, source.observed.connections.client_of, faults=query.faults)
    except TextError as error:
        raise Problem(400, str(error), at=error.at) from None


def message_selection(source: Source, query: ListQuery) -> MessageSelection:
    """Return the selection of messages for a query; `Problem` if its filter is invalid."""
    try:
        return MessageSelection(query.filter, query.place, source.observed.connections.client_of, faults=query.faults)
    except TextError as error:
        raise Problem(400, str(error), at=error.at) from None
