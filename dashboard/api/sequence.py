"""Sequence diagrams: the commands between clients, proxy and broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Query, Response

from amqproxy.dashboard.api.dependencies import SourceOf
from amqproxy.dashboard.api.queries import ListQueryOf, frame_selection
from amqproxy.dashboard.api.responses import json_response
from amqproxy.dashboard.frame_query import entries_for
from amqproxy.dashboard.ring_entry import RingEntry
from amqproxy.dashboard.ring_reading import selected
from amqproxy.dashboard.sequence import ladder_json, ladder_of
from amqproxy.views.ladder_svg import ladder_svg

router = APIRouter(tags=["sequence"])

MAX_FRAMES = 200_000
"""Maximum number of frames that are read for one ladder."""

MAX_SECONDS = 3.0
"""Seconds after which a ladder is cut at the frames read so far."""

MAX_ROWS = 5_000

_PICTURE = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "content-disposition": 'inline; filename="sequence.svg"',
}
"""Headers of the picture: its style is inline; it contains no scripts, and the policy would block them."""


@router.get("/sources/{source}/sequence")
async def show_sequence(
    source: SourceOf,
    query: ListQueryOf,
    rows: Annotated[int, Query(ge=1, le=MAX_ROWS)] = 500,
    format: Literal["json", "svg"] = "json",
) -> Response:
    """Who sent what to whom, on a connection, or on all; repetition is folded. `limit` does not apply, `rows` does.

    It `is_cut` where it would take too long to look at all: it goes on with `start` at `next_start`, in nanoseconds
    since 1970, as text; `connection` makes it less.
    """
    query = msgspec.structs.replace(query, limit=MAX_FRAMES)
    selection = frame_selection(source, query)
    entries = entries_for(source.ring, query)

    def draw() -> Response:
        in_time = _InTime(entries)
        ladder = ladder_of(selected(in_time, selection, query), rows)
        if format == "json":
            next_ns = in_time.next_ns
            next_start = None if next_ns is None else str(next_ns)
            return json_response({**ladder_json(ladder), "is_cut": next_ns is not None, "next_start": next_start})
        return Response("\n".join(ladder_svg(ladder)), media_type="image/svg+xml", headers=_PICTURE)

    return await asyncio.to_thread(draw)


class _InTime:
    """Entries up to a time limit; `next_ns` is the time of the first unread entry, `None` if all were read."""

    def __init__(self, entries: Iterable[RingEntry], clock: Callable[[], float] = time.monotonic) -> None:
        self._entries = entries
        self._clock = clock
        self.next_ns: int | None = None

    def __iter__(self) -> Iterator[RingEntry]:
        stop_at = self._clock() + MAX_SECONDS
        for entry in self._entries:
            self.next_ns = entry.ts_ns
            if self._clock() >= stop_at:
                return
            yield entry  # if the reader stops here, `next_ns` stays at this entry
        self.next_ns = None
