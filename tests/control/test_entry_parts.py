"""Entries shown in parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amqproxy.amqp091.methods import BasicQos
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.control.entry_parts import FRAMES_A_LOOK, EntryClock, EntryParts
from amqproxy.control.tap_ring import Cursor, TapRing
from amqproxy.peer import Peer
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.tap import TappedSession
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
