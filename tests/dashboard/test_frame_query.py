"""Rows that are asked for: in blocks, in time, and going on where it ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import MessageAccept, MessageTransfer
from amqproxy.amqp010.frame import encode_method as encode_amqp010
from amqproxy.amqp010.properties import DeliveryProperties, Header
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp091.methods import BasicAck, BasicPublish
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.dashboard import frame_query
from amqproxy.dashboard.frame_query import Page, entries_for, find
from amqproxy.dashboard.frame_selection import FrameSelection
from amqproxy.dashboard.list_query import ListQuery
from amqproxy.dashboard.message_query import CHECKED, find_messages
from amqproxy.dashboard.message_ring import MessageRow
from amqproxy.dashboard.message_selection import MessageSelection
from amqproxy.dashboard.ring import Ring
from amqproxy.taps.amqp010.chunk import Amqp010Chunk
from amqproxy.taps.amqp091.chunk import Amqp091Chunk
from tests.amqp010.samples import split
from tests.example_count import example_count
from tests.taps.trace.traced import frames_of

pytestmark = pytest.mark.once

FILTERS = (None, "method == 'basic.ack'", "routing_key == 'r1'", "body.contains('3')", "method == 'queue.purge'")
AMQP010_FILTERS = (None, "method == 'message.accept'", *FILTERS[2:])


def filled(cuts: list[int], *, is_amqp010: bool = False) -> Ring:
    """Two connections in turn: messages, whose frames are cut into packets anywhere, and acks."""
    ring = Ring(1 << 24)
    cut = iter(cuts)
    for number in range(40):
        stream = number % 2
        key, body = f"r{number % 5}", b"%d" % number
        if is_amqp010:
            header = Header((DeliveryProperties(routing_key=key),))
            data = Assembly(1, MessageTransfer(""), header, body).encode(frame_max=4096)
            pieces = [*split(data), encode_amqp010(2, MessageAccept(SequenceSet([(number, number)])))]
        else:
            frames = [*frames_of(1, BasicPublish(routing_key=key), body=body), *frames_of(2, BasicAck(number))]
            pieces = [frame.raw for frame in frames]
        while pieces:
            size = next(cut, 2)
            some, pieces = pieces[:size], pieces[size:]
            where = (number, stream, f"c{stream}", "client")
            if is_amqp010:
                chunk = Amqp010Chunk(b"".join(some), 0, [number] * len(some))
                ring.append(Amqp010DecodedFrames(*where, chunk, command_ids=chunk.command_ids))
            else:
                ring.append(Amqp091DecodedFrames(*where, Amqp091Chunk(b"".join(some), 0)))
    return ring


def asked(ring: Ring, query: ListQuery, clock: Callable[[], float] = lambda: 0.0) -> Page:
    return find(entries_for(ring, query), FrameSelection(query.filter), query, clock)


def seqs(page: Page) -> list[int]:
    return [json.loads(row)["seq"] for row in page.rows]


@settings(max_examples=example_count(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.integers(1, 4), max_size=40),
    st.sampled_from([(each, False) for each in FILTERS] + [(each, True) for each in AMQP010_FILTERS]),
    st.integers(1, 30),
    st.none() | st.integers(0, 170),
    st.integers(1, 40),
)
def test_blocks_make_no_difference(
    monkeypatch: pytest.MonkeyPatch,
    cuts: list[int],
    chosen: tuple[str | None, bool],
    limit: int,
    before: int | None,
    block: int,
) -> None:
    filter, is_amqp010 = chosen
    ring = filled(cuts, is_amqp010=is_amqp010)
    query = ListQuery(filter=filter, limit=limit, before=before)
    monkeypatch.setattr(frame_query, "BLOCK_FRAMES", 10**9)
    whole = asked(ring, query)
    monkeypatch.setattr(frame_query, "BLOCK_FRAMES", block)
    pieces = asked(ring, query)
    assert sorted(seqs(pieces)) == sorted(seqs(whole))
    assert pieces.has_more >= whole.has_more


def test_what_a_filter_of_0_10_lets_by() -> None:
    """Whole commands, each frame with the id of its command."""
    ring = filled([3, 1, 2, 1], is_amqp010=True)
    page = asked(ring, ListQuery(filter="routing_key == 'r1'", limit=1000))
    rows = [json.loads(row) for row in page.rows]
    assert [row["type"] for row in rows] == ["command", "header", "body"] * 8
    assert [row["command_id"] for row in rows] == [number for number in range(1, 40, 5) for _ in range(3)]
    assert [row["seq"] for row in rows] == [4 * number + frame for number in range(1, 40, 5) for frame in range(3)]


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
