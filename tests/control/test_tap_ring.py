"""The most recent traffic of sessions, and its readers."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.errors import FrameError
from amqproxy.amqp091.frame import BODY
from amqproxy.amqp091.methods import BasicAck, BasicPublish
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.amqp091.wire import Table
from amqproxy.control.tap_ring import ENTRY_COST, REJOIN_NS, Cursor, Entry, Missed, TapRing
from amqproxy.taps.amqp091.chunk import Amqp091Chunk
from amqproxy.taps.tap import TappedSession
from amqproxy.taps.trace.snapshot import ConnectionSnapshot
from tests.proxy.recording_tap import Audience
from tests.taps.sessions import Session
from tests.taps.trace.traced import frames_of

SESSION = Session()


def acks(ring: TapRing, *tags: int) -> None:
    for tag in tags:
        ring.saw_frames(SESSION, CLIENT, frames_of(1, BasicAck(tag)))


def read(cursor: Cursor) -> list[Any]:
    found: list[Any] = []
    while True:
        skipped = cursor.skipped()
        if skipped:
            found.append(f"{skipped} lost")
        entry = cursor.take()
        if entry is None:
            return found
        found += [frame.method.delivery_tag for frame in entry.frames]


def test_whatever_was_shown_is_shown_again() -> None:
    ring, tap = TapRing(1 << 20), Audience()
    cursor = Cursor(ring)
    data = b"".join(frame.raw for frame in frames_of(1, BasicPublish()))
    ring.saw_protocol_header(SESSION, b"AMQP")
    ring.saw_frames(SESSION, CLIENT, Amqp091Chunk(data, 0))
    ring.saw_frames(SESSION, SERVER, frames_of(1, BasicAck(1)))
    ring.saw_violation(SESSION, CLIENT, FrameError("too large"))
    ring.saw_end(SESSION, "over")
    while (entry := cursor.take()) is not None:
        entry.show(tap)
    assert tap.seen == [
        "c:1-p:2 b'AMQP'",
        "client basic.publish",
        "client 2",
        "server basic.ack",
        "client 501",
    ]
    assert cursor.is_at_end


def test_readers_that_have_missed_entries_ask_for_states_once_a_second_at_most() -> None:
    now_ns = 5 * REJOIN_NS
    ring = TapRing(1 << 20, lambda: now_ns)
    Cursor(ring)
    acks(ring, 1)
    assert ring.joins == 1
    assert ring.rejoin()
    assert ring.joins == 2
    acks(ring, 2)
    assert not ring.rejoin()
    now_ns += REJOIN_NS
    acks(ring, 3)
    assert ring.rejoin()
    assert ring.joins == 3


def test_a_state_is_shown_at_its_place() -> None:
    class Noting(Audience):
        def saw_snapshot(self, session: TappedSession, snapshot: ConnectionSnapshot) -> None:
            self.seen.append(f"{session.number} {snapshot.protocol}")

    ring, tap = TapRing(1 << 20), Noting()
    cursor = Cursor(ring)
    acks(ring, 1)
    ring.saw_snapshot(SESSION, ConnectionSnapshot(ts_ns=1, protocol="0-9-1"))
    acks(ring, 2)
    while (entry := cursor.take()) is not None:
        entry.show(tap)
    assert tap.seen == ["client basic.ack", f"{SESSION.number} 0-9-1", "client basic.ack"]


def test_a_reader_begins_at_the_end_or_at_the_start() -> None:
    ring = TapRing(1 << 20)
    acks(ring, 1, 2)
    late, early = Cursor(ring), Cursor(ring, from_start=True)
    acks(ring, 3)
    assert read(late) == [3]
    assert read(early) == [1, 2, 3]
    assert read(early) == []


def test_the_oldest_is_overwritten_and_who_has_not_read_it_learns_how_much() -> None:
    ring = TapRing(3 * (ENTRY_COST + 300))
    slow, fast = Cursor(ring), Cursor(ring)
    acks(ring, 1)
    assert read(fast) == [1]
    acks(ring, *range(2, 11))
    assert read(slow) == ["8 lost", 9, 10] or read(slow) == []
    assert read(fast)[0].endswith("lost")
    assert read(Cursor(ring, from_start=True))[-1] == 10


def test_one_that_is_larger_than_the_ring_is_not_kept() -> None:
    ring = TapRing(100)
    cursor = Cursor(ring)
    acks(ring, 1, 2)
    assert read(cursor) == ["2 lost"]
    assert not ring.entries


@given(st.integers(1, 8), st.lists(st.integers(0, 6), max_size=60))
def test_what_is_read_and_what_is_lost_is_all_there_was(room: int, turns: list[int]) -> None:
    """0 is a turn of the reader, any other so many frames."""
    ring = TapRing(room * 800)
    cursor = Cursor(ring)
    shown = 0
    got = lost = 0
    last = 0
    for turn in [*turns, 0]:
        if turn:
            acks(ring, *range(shown + 1, shown + turn + 1))
            shown += turn
            continue
        for each in read(cursor):
            if isinstance(each, str):
                lost += int(each.partition(" ")[0])
            else:
                assert each > last
                last = each
                got += 1
        assert got + lost == shown
        assert sum(entry.cost for entry in ring.entries.values()) <= ring.memory


def chunk(frames: int) -> Amqp091Chunk:
    return Amqp091Chunk(frames * frames_of(1, BasicAck(1))[0].raw, 0)


def test_a_ring_is_closed_until_what_is_in_it_was_read() -> None:
    """It has what passed first, in one piece, and what passed from then on; between them, it is counted."""
    ring = TapRing(10 * (ENTRY_COST + len(chunk(1).data)), may_close=True)
    told: list[Entry] = []
    cursor = Cursor(ring, on_missed=told.append)
    other = Session(2)
    for number in range(30):
        ring.saw_frames(other if number % 2 else SESSION, CLIENT, chunk(1))
    assert ring.is_closed
    assert (len(ring.entries), told) == (10, [])
    for _ in range(9):
        cursor.take()
    ring.saw_frames(other, SERVER, chunk(5))
    assert ring.is_closed
    cursor.take()
    ring.saw_frames(SESSION, CLIENT, chunk(2))
    assert not ring.is_closed
    found = []
    while (entry := cursor.take()) is not None:
        found.append((entry.session, entry.sender, entry.event, entry.length))
    size = len(chunk(1).data)
    assert found == [
        (SESSION, CLIENT, Missed(10, 10 * size), 10),
        (other, CLIENT, Missed(10, 10 * size), 10),
        (other, SERVER, Missed(5, 5 * size), 5),
        (SESSION, CLIENT, None, 2),
    ]
    assert (ring.shown, cursor.skipped(), told) == (37, 0, [])


@pytest.mark.parametrize("room", [0, 1, ENTRY_COST])
def test_a_ring_is_closed_where_the_next_entry_does_not_fit(room: int) -> None:
    ring = TapRing(10 * (ENTRY_COST + len(chunk(1).data)) + room, may_close=True)
    told: list[Entry] = []
    Cursor(ring, on_missed=told.append)
    for _ in range(30):
        ring.saw_frames(SESSION, CLIENT, chunk(1))
    assert ring.is_closed
    assert (len(ring.entries), told) == (10, [])


def test_a_ring_is_not_closed_for_who_follows_nor_for_who_is_not_told() -> None:
    ring = TapRing(10 * (ENTRY_COST + len(chunk(1).data)), may_close=True)
    missed: list[Entry] = []
    slow, fast = (Cursor(ring, on_missed=on_missed) for on_missed in (missed.append, missed.append))
    for _ in range(30):
        ring.saw_frames(SESSION, CLIENT, chunk(1))
        fast.take()
    assert not ring.is_closed
    assert len(missed) == 20
    fast.close()
    for _ in range(30):
        ring.saw_frames(SESSION, CLIENT, chunk(1))
    assert ring.is_closed
    plain = Cursor(ring)
    ring.saw_frames(SESSION, CLIENT, chunk(1))
    assert not ring.is_closed
    plain.close()
    slow.close()
    for _ in range(30):
        ring.saw_frames(SESSION, CLIENT, chunk(1))
    assert not ring.is_closed


def test_a_session_that_ends_tells_what_was_missed_of_it_first() -> None:
    ring, tap = TapRing(3 * (ENTRY_COST + len(chunk(1).data)), may_close=True), Audience()
    Cursor(ring, on_missed=lambda entry: None)
    for _ in range(5):
        ring.saw_frames(SESSION, CLIENT, chunk(1))
    ring.saw_end(SESSION, "over")
    *_, missed, end = ring.entries.values()
    missed.show(tap)
    assert (tap.seen, end.event) == (["2 frames not shown"], "over")


def test_who_waits_is_woken_once() -> None:
    ring = TapRing(1 << 20)
    woken: list[int] = []

    def wake() -> None:
        woken.append(1)

    ring.call_once(wake)
    ring.call_once(wake)
    acks(ring, 1, 2)
    assert woken == [1]
    ring.call_once(wake)
    ring.forget(wake)
    ring.forget(wake)
    acks(ring, 3)
    assert woken == [1]


def test_nothing_is_kept_for_nobody() -> None:
    ring = TapRing(1 << 20)
    acks(ring, 1, 2)
    ring.clear()
    cursor = Cursor(ring, from_start=True)
    acks(ring, 3)
    assert read(cursor) == [3]


def test_frames_count_as_what_they_take_once_a_reader_has_decoded_them() -> None:
    """Small entries of a table take many times their bytes; bodies are never decoded."""
    ring = TapRing(1 << 20)
    headers = Table({f"key{number}": "value" for number in range(300)})
    ring.saw_frames(Session(), CLIENT, frames_of(1, BasicPublish(), Properties(headers=headers), b"x" * 8_000))
    gc.collect()
    tracemalloc.start()
    try:
        [entry] = ring.entries.values()
        kept = [frame.value for frame in entry.frames if frame.kind != BODY]
        assert kept[1].properties.headers.values_by_name
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ring.memory > entry.cost - 8_000 >= taken


def test_a_closed_cursor_keeps_no_callback() -> None:
    cursor = Cursor(TapRing(1 << 20), on_missed=lambda entry: None)
    cursor.close()
    assert not cursor.is_told
