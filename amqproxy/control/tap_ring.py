"""A ring of what sessions have shown most recently, which any number of readers read, each at its own pace."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import BODY, Frame
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.taps.frame_chunk import FrameChunk
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.tap import Tap, TappedSession

ENTRY_COST = 512
"""Bytes that an entry takes, about, besides its frames."""

FRAME_COST = 256
"""Bytes that a frame takes, about, besides its own."""

DECODED_FACTOR = 16
"""How many times its own bytes a method or header takes, at most, about, once a reader has decoded it."""


class Entry(NamedTuple):
    """What a session has shown at one time: frames with their note, or else the client's header, how many frames were
    not shown, a violation, or the end. `before` is how many frames and others had been shown by then.
    """

    ts_ns: int
    session: TappedSession
    sender: Peer
    frames: Sequence[Frame]
    note: Note
    event: bytes | int | ProtocolError | str | None
    before: int
    cost: int

    def show(self, tap: Tap) -> None:
        """Show a tap what was shown."""
        match self.event:
            case None:
                frames = self.frames.unmade() if isinstance(self.frames, FrameChunk) else self.frames
                tap.saw_frames(self.session, self.sender, frames, self.note)
            case bytes():
                tap.saw_protocol_header(self.session, self.event)
            case int():
                tap.saw_gap(self.session, self.event)
            case ProtocolError():
                tap.saw_violation(self.session, self.sender, self.event)
            case _:
                tap.saw_end(self.session, self.event)


class TapRing:
    """A tap that keeps what it is shown in `memory` bytes; the oldest is overwritten.

    What it costs the relay is to keep the bytes: frames are made of them, and records of these, by those who read.
    """

    requires_decoding = False
    may_miss_frames = True

    def __init__(self, memory: int, clock: Callable[[], int] = time.time_ns) -> None:
        self.memory = memory
        self.entries: dict[int, Entry] = {}
        self.first = self.end = 0
        """The number of the oldest entry that is kept, and of the next to come."""
        self.shown = 0
        """How many frames and others have been shown so far."""
        self._size = 0
        self._clock = clock
        self._waiting: list[Callable[[], None]] = []

    @property
    def overwritten(self) -> int:
        """How many frames and others were shown before the oldest entry that is kept."""
        return self.entries[self.first].before if self.entries else self.shown

    def call_once(self, wake: Callable[[], None]) -> None:
        """Call `wake` when there is more."""
        if wake not in self._waiting:
            self._waiting.append(wake)

    def forget(self, wake: Callable[[], None]) -> None:
        """Do not call it."""
        if wake in self._waiting:
            self._waiting.remove(wake)

    def clear(self) -> None:
        """There is no reader any more."""
        self.entries.clear()
        self.first = self.end
        self._size = 0

    # --- what sessions show

    def saw_protocol_header(self, session: TappedSession, data: bytes) -> None:
        self._add(session, CLIENT, (), NOTHING, data, ENTRY_COST)

    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Frame], note: Note = NOTHING) -> None:
        if isinstance(frames, FrameChunk):
            frames = frames.unmade()
            cost = ENTRY_COST + len(frames.data)
        else:
            cost = ENTRY_COST
            for frame in frames:
                cost += FRAME_COST + (frame.size if frame.kind == BODY else DECODED_FACTOR * frame.size)
        self._add(session, sender, frames, note, None, cost)

    def saw_gap(self, session: TappedSession, frames: int) -> None:
        self._add(session, CLIENT, (), NOTHING, frames, ENTRY_COST)

    def saw_violation(self, session: TappedSession, sender: Peer, error: ProtocolError) -> None:
        self._add(session, sender, (), NOTHING, error, ENTRY_COST)

    def saw_end(self, session: TappedSession, reason: str) -> None:
        self._add(session, CLIENT, (), NOTHING, reason, ENTRY_COST)

    def _add(
        self,
        session: TappedSession,
        sender: Peer,
        frames: Sequence[Frame],
        note: Note,
        event: bytes | int | ProtocolError | str | None,
        cost: int,
    ) -> None:
        entries = self.entries
        entries[self.end] = Entry(self._clock(), session, sender, frames, note, event, self.shown, cost)
        self.end += 1
        self.shown += len(frames) or 1
        self._size += cost
        while self._size > self.memory and entries:
            self._size -= entries.pop(self.first).cost
            self.first += 1
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for wake in waiting:
                wake()


class Cursor:
    """Where one reader is in a ring: at its end, or `from_start`."""

    def __init__(self, ring: TapRing, *, from_start: bool = False) -> None:
        self._ring = ring
        self._next = ring.first if from_start else ring.end
        self._read = ring.overwritten if from_start else ring.shown

    @property
    def is_at_end(self) -> bool:
        """Has all been read?"""
        return self._next >= self._ring.end

    def take(self) -> Entry | None:
        """The next entry that there still is, which is read now; None at the end. Ask for `skipped` before it."""
        entry = self._ring.entries.get(self._next)
        if entry is not None:
            self._next += 1
            self._read = entry.before + (len(entry.frames) or 1)
        return entry

    def skipped(self, before_ns: int | None = None) -> int:
        """Skip what has been overwritten, and what is from `before_ns`: how many frames and others that are."""
        ring = self._ring
        self._next = max(self._next, ring.first)
        if before_ns is not None:
            while (entry := ring.entries.get(self._next)) is not None and entry.ts_ns < before_ns:
                self._next += 1
        entry = ring.entries.get(self._next)
        skipped_to = ring.shown if entry is None else entry.before
        lost, self._read = skipped_to - self._read, skipped_to
        return lost
