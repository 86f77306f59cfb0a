"""Reading of a ring as decoded traffic, as from a capture, for views and exports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from amqproxy.capture.decoded import Decoded, StreamEnded
from amqproxy.dashboard.frame_selection import FrameSelection
from amqproxy.dashboard.list_query import ListQuery
from amqproxy.dashboard.missing_frames import MissingFrames
from amqproxy.dashboard.ring_entry import RingEntry


def selected(entries: Iterable[RingEntry], selection: FrameSelection, query: ListQuery) -> Iterator[Decoded]:
    """Yield the selected traffic of these entries, at most `limit` rows, and the ends of its connections."""
    return (decoded for decoded, _ in selected_rows(entries, selection, query))


def selected_rows(
    entries: Iterable[RingEntry], selection: FrameSelection, query: ListQuery
) -> Iterator[tuple[Decoded, Sequence[int]]]:
    """Like `selected`, with the numbers of the rows."""
    left = query.limit
    for entry in entries:
        decoded = entry.decoded
        if isinstance(decoded, StreamEnded):
            selection.select(entry)
            if query.place.has_connection(decoded):
                yield decoded, ()
            continue
        for each, seqs in selection.select(entry, -1 if query.after is None else query.after):
            if query.before is not None and seqs[0] >= query.before:
                continue
            if isinstance(each, MissingFrames):
                continue
            left -= len(seqs)
            if left < 0:
                return
            yield each, seqs
