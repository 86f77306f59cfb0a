"""Rows that are asked for: in blocks, in time, and going on where it ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.methods import BasicAck, BasicPublish
from amqproxy.capture.decoded import DecodedFrames
from amqproxy.taps.frame_chunk import FrameChunk
from dashboard import frame_query
from dashboard.frame_query import Page, entries_for, find
from dashboard.frame_selection import FrameSelection
from dashboard.list_query import ListQuery
from dashboard.message_query import CHECKED, find_messages
from dashboard.message_ring import MessageRow
from dashboard.message_selection import MessageSelection
from dashboard.ring import Ring
from tests.taps.trace.traced import frames_of

pytestmark = pytest.mark.once

FILTERS = (None, "method == 'basic.ack'", "routing_key == 'r1'", "body.contains('3')", "method == 'queue.purge'")


def filled(cuts: list[int]) -> Ring:
    """Two connections in turn: messages, whose frames are cut into packets anywhere, and acks."""
    ring = Ring(1 << 24)
    cut = iter(cuts)
    for number in range(40):
        stream = number % 2
        frames = frames_of(1, BasicPublish(routing_key=f"r{number % 5}"), body=b"%d" % number)
        frames += frames_of(2, BasicAck(number))
        while frames:
            size = next(cut, 2)
            some, frames = frames[:size], frames[size:]
            chunk = FrameChunk(b"".join(frame.raw for frame in some), 0)
            ring.append(DecodedFrames(number, stream, f"c{stream}", "client", chunk))
    return ring


def asked(ring: Ring, query: ListQuery, clock: Callable[[], float] = lambda: 0.0) -> Page:
    return find(entries_for(ring, query), FrameSelection(query.filter), query, clock)


def seqs(page: Page) -> list[int]:
    return [json.loads(row)["seq"] for row in page.rows]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.integers(1, 4), max_size=40),
    st.sampled_from(FILTERS),
    st.integers(1, 30),
    st.none() | st.integers(0, 170),
    st.integers(1, 40),
)
def test_blocks_make_no_difference(
    monkeypatch: pytest.MonkeyPatch, cuts: list[int], filter: str | None, limit: int, before: int | None, block: int
) -> None:
    ring = filled(cuts)
    query = ListQuery(filter=filter, limit=limit, before=before)
    monkeypatch.setattr(frame_query, "BLOCK_FRAMES", 10**9)
    whole = asked(ring, query)
    monkeypatch.setattr(frame_query, "BLOCK_FRAMES", block)
    pieces = asked(ring, query)
    assert sorted(seqs(pieces)) == sorted(seqs(whole))
    assert pieces.has_more >= whole.has_more


@pytest.mark.parametrize("filter", FILTERS)
def test_what_takes_too_long_is_gone_on_with(monkeypatch: pytest.MonkeyPatch, filter: str | None) -> None:
    monkeypatch.setattr(frame_query, "BLOCK_FRAMES", 7)
    ring = filled([3, 1, 2])
    whole = seqs(asked(ring, ListQuery(filter=filter, limit=1000)))
    slow = count(0.0, 10.0).__next__
    found: list[int] = []
    before, turns = ring.next_seq, 0
    while True:
        page = asked(ring, ListQuery(filter=filter, limit=1000, before=before), slow)
        found = seqs(page) + found
        turns += 1
        if not page.has_more:
            break
        assert page.searched < before
        before = page.searched
    assert (sorted(found), turns > 5) == (sorted(whole), True)
    after, found = -1, []
    while True:
        page = asked(ring, ListQuery(filter=filter, limit=1000, after=after), slow)
        found += seqs(page)
        if not page.has_more:
            break
        assert page.searched > after
        after = page.searched
    if filter != FILTERS[3]:  # one that waits for what comes later begins anew each time
        assert found == whole


def test_messages_are_searched_in_time_too() -> None:
    rows = [
        MessageRow(seq, seq, seq, 0.0, seq, 1, "c", 1, "publish", "confirmed", 0, (), None, b'{"x":1}', 1)
        for seq in range(5 * CHECKED)
    ]
    slow = count(0.0, 10.0).__next__
    page = find_messages(rows, MessageSelection(), ListQuery(limit=2000), slow)
    assert (len(page.rows), page.has_more, page.searched) == (CHECKED, True, 4 * CHECKED)
    page = find_messages(rows, MessageSelection(), ListQuery(limit=2000, after=-1), slow)
    assert (len(page.rows), page.has_more, page.searched) == (CHECKED, True, CHECKED - 1)
    page = find_messages(rows, MessageSelection(), ListQuery(limit=2000), lambda: 0.0)
    assert (len(page.rows), page.has_more) == (5 * CHECKED, False)


@pytest.mark.parametrize("direction", ["before", "after"])
def test_a_page_of_large_rows_is_gone_on_with(monkeypatch: pytest.MonkeyPatch, direction: str) -> None:
    monkeypatch.setattr(frame_query, "MAX_PAGE_BYTES", 5000)
    ring = filled([3, 5, 2])
    found: list[int] = []
    place = -1 if direction == "after" else ring.next_seq
    for _ in range(ring.next_seq):
        page = asked(ring, ListQuery(limit=10_000, **{direction: place}))
        assert sum(map(len, page.rows)) < 20_000
        found += seqs(page)
        if not page.has_more:
            break
        place = page.searched
    assert sorted(found) == list(range(ring.next_seq))
    assert len(found) == len(set(found))
