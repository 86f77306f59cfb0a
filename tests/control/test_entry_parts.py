"""Entries shown in parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from amqproxy.amqp091.methods import BasicQos
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.control.entry_parts import CHANNELS_A_LOOK, FRAMES_A_LOOK, EntryClock, EntryParts
from amqproxy.control.tap_ring import Cursor, TapRing
from amqproxy.peer import Peer
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.observer import ObserverSettings
from amqproxy.taps.record_queue import PrintedRecord, RecordQueue
from amqproxy.taps.tap import TappedSession
from amqproxy.taps.trace.snapshot import ChannelSnapshot, ConnectionSnapshot
from amqproxy.taps.trace_tap import TraceTap
from tests.taps.sessions import Session
from tests.taps.trace.traced import frames_of


class Seen:
    """The numbers of frames that a tap is shown at a time, and the ends."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.ends: list[str] = []

    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Any], note: Note = NOTHING) -> None:
        self.counts.append(len(frames))

    def saw_end(self, session: TappedSession, reason: str) -> None:
        self.ends.append(reason)


def test_a_chunk_is_shown_in_parts() -> None:
    ring = TapRing(1 << 20, clock=lambda: 7)
    cursor = Cursor(ring)
    ring.saw_frames(Session(), CLIENT, frames_of(1, BasicQos()) * (FRAMES_A_LOOK + 1))
    ring.saw_end(Session(), "over")
    seen, clock = Seen(), EntryClock()
    parts = EntryParts(seen, clock)  # type: ignore[arg-type]
    assert not parts.show_some()
    entry = cursor.take()
    assert entry is not None
    parts.show(entry)
    assert (seen.counts, clock.now_ns) == ([FRAMES_A_LOOK], 7)
    assert parts.show_some()
    assert seen.counts == [FRAMES_A_LOOK, 1]
    assert not parts.show_some()
    parts.show(entry)
    parts.clear()
    assert not parts.show_some()
    entry = cursor.take()
    assert entry is not None
    parts.show(entry)
    assert seen.ends == ["over"]


@pytest.mark.parametrize("protocol", ["0-9-1", "0-10"])
def test_a_snapshot_of_very_many_channels_is_restored_in_parts(protocol: str) -> None:
    ring = TapRing(1 << 26)
    cursor = Cursor(ring)
    session = Session()
    name = {"name": b"s"} if protocol == "0-10" else {}
    channels = tuple(ChannelSnapshot(number=each, mode="normal", **name) for each in range(1, 1_001))
    ring.saw_snapshot(session, ConnectionSnapshot(ts_ns=1, protocol=protocol, channels=channels))
    queue: RecordQueue[PrintedRecord] = RecordQueue(10, 1 << 20, Metrics(), lambda: None)
    tap = TraceTap(queue, ObserverSettings(), memory=1 << 24)
    parts = EntryParts(tap, EntryClock())
    entry = cursor.take()
    assert entry is not None
    parts.show(entry)
    trace = tap._observers[session.number]._trace
    assert not trace.channels
    looks = 1
    while parts.show_some():
        looks += 1
    assert looks >= 1_000 // CHANNELS_A_LOOK
    assert len(trace.channels) == 1_000
