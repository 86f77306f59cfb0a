"""A ring of the sessions' latest traffic, which any number of readers read, each at its own pace."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from amqproxy.peer import CLIENT, Peer
from amqproxy.process.supervision import contained
from amqproxy.taps.dialects import chunk_of
from amqproxy.taps.frame_chunk import FrameChunk
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.protocol_error import AnyProtocolError
from amqproxy.taps.tap import DecodedOnly, Tap, TappedSession
from amqproxy.taps.trace.snapshot import ConnectionSnapshot

ENTRY_COST = 512
"""Approximate memory of an entry in bytes, without its frames."""

FRAME_COST = 256
"""Approximate memory of a frame in bytes, beyond the bytes of the frame itself."""

DECODED_FACTOR = 16
"""Approximate upper limit of the memory of a decoded method or header, as a multiple of its bytes."""


MOST_SKIPPED = 256
"""Entries that one call skips for their age."""

SNAPSHOT_FACTOR = 8
"""Approximate upper limit of the memory of a snapshot, as a multiple of its encoded bytes."""

REJOIN_NS = 1_000_000_000
"""Nanoseconds between two times that readers who have missed entries ask all sessions for their states."""

MOST_MISSED = 256
"""Sessions whose losses are added when the ring opens again; those of others are added with their next entry."""


class Missed(NamedTuple):
    """Number and bytes of one sender's frames that passed while the ring was closed."""

    frames: int
    size: int


Event: TypeAlias = bytes | int | Missed | ConnectionSnapshot | AnyProtocolError | str
"""An event of a session without frames."""


class Entry(NamedTuple):
    """One event of a session: frames with their note, or else another `event`.

    That is a protocol header, a gap's number of frames, a `Missed`, a snapshot, a violation, or the reason of the end.
    `before` counts the frames and other events before this one.
    """

    ts_ns: int
    session: TappedSession
    sender: Peer
    frames: FrameChunk[Any] | tuple[()]
    note: Note
    event: Event | None
    before: int
    cost: int

    @property
    def length(self) -> int:
        """Number of frames, or 1 for an event without frames; for a `Missed`, its number of frames."""
        return self.event.frames if isinstance(self.event, Missed) else len(self.frames) or 1

    def show(self, tap: Tap) -> None:
        """Repeat the event to a tap."""
        match self.event:
            case None:
                frames = self.frames.unmade() if self.frames else ()
                tap.saw_frames(self.session, self.sender, frames, self.note)
            case bytes() if self.sender is CLIENT:
                tap.saw_protocol_header(self.session, self.event)
            case bytes():
                tap.saw_protocol_header(self.session, self.event, self.sender)
            case int():
                tap.saw_gap(self.session, self.event)
            case Missed():
                tap.saw_gap(self.session, self.event.frames)
            case ConnectionSnapshot():
                tap.saw_snapshot(self.session, self.event)
            case str():
                tap.saw_end(self.session, self.event)
            case _:
                tap.saw_violation(self.session, self.sender, self.event)


class TapRing(DecodedOnly):
    """A tap that keeps the latest entries in `memory` bytes; the oldest are overwritten.

    The relay only pays for keeping the bytes: readers make frames of them, and records of the frames.

    A ring that `may_close` does so when it is full of entries that none of its readers has read, if all of these
    handle `Missed`: until one of them has reached the end, frames are only counted. So the readable traffic is
    contiguous, and the rest costs next to nothing.
    """

    may_miss_frames = True

    def __init__(self, memory: int, clock: Callable[[], int] = time.time_ns, *, may_close: bool = False) -> None:
        self.memory = memory
        self.may_close = may_close
        self.is_closed = False
        self.entries: dict[int, Entry] = {}
        self.first = self.end = 0
        """The numbers of the oldest entry that is kept, and of the next one to come."""
        self.shown = 0
        """Number of frames and other events shown so far."""
        self.joins = 0
        """Number of times that a reader has begun, or has missed entries."""
        self._rejoined_ns = 0
        self._size = 0
        self._clock = clock
        self._waiting: list[Callable[[], None]] = []
        self._cursors: list[Cursor] = []
        self._told: list[Cursor] = []
        """Cursors that are told of overwritten entries."""
        self._missed: dict[TappedSession, dict[tuple[Peer, Note], Missed]] = {}

    @property
    def overwritten(self) -> int:
        """Number of frames and other events before the oldest entry that is kept."""
        return self.entries[self.first].before if self.entries else self.shown

    def call_once(self, wake: Callable[[], None]) -> None:
        """Call `wake` once, at the next entry."""
        if wake not in self._waiting:
            self._waiting.append(wake)

    def forget(self, wake: Callable[[], None]) -> None:
        """Cancel `call_once`."""
        if wake in self._waiting:
            self._waiting.remove(wake)

    def join(self, cursor: Cursor) -> None:
        """Register a cursor; with `on_missed`, it is told of overwritten entries."""
        self.joins += 1
        self._set_cursors([*self._cursors, cursor])

    def leave(self, cursor: Cursor) -> None:
        """Deregister a cursor."""
        self._set_cursors([each for each in self._cursors if each is not cursor])

    def rejoin(self) -> bool:
        """Ask sessions for their states again, since a reader has missed entries: once in `REJOIN_NS` at most.

        Return whether they were asked; call it again later if not.
        """
        newest = self.entries.get(self.end - 1)
        if newest is None or newest.ts_ns - self._rejoined_ns < REJOIN_NS:
            return False
        self._rejoined_ns = newest.ts_ns
        self.joins += 1
        return True

    def _set_cursors(self, cursors: list[Cursor]) -> None:
        self._cursors = cursors
        self._told = [each for each in cursors if each.is_told]

    def clear(self) -> None:
        """Drop all entries, once the last reader has left."""
        self.entries.clear()
        self.first = self.end
        self._size = 0
        self._missed.clear()
        self.is_closed = False

    # --- events of sessions

    def saw_protocol_header(self, session: TappedSession, data: bytes, sender: Peer = CLIENT) -> None:
        self._add(session, sender, (), NOTHING, data, ENTRY_COST)

    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Any], note: Note = NOTHING) -> None:
        chunk = frames if isinstance(frames, FrameChunk) else chunk_of(frames)
        cost = ENTRY_COST + chunk.memory(FRAME_COST, DECODED_FACTOR)
        if self.may_close and self._closes(cost):
            self._count(session, sender, chunk, note)
        else:
            self._add(session, sender, chunk.unmade(), note, None, cost)

    def saw_gap(self, session: TappedSession, frames: int) -> None:
        self._add(session, CLIENT, (), NOTHING, frames, ENTRY_COST)

    def saw_snapshot(self, session: TappedSession, snapshot: ConnectionSnapshot) -> None:
        self._add(session, CLIENT, (), NOTHING, snapshot, ENTRY_COST + SNAPSHOT_FACTOR * len(snapshot.to_bytes()))

    def saw_violation(self, session: TappedSession, sender: Peer, error: AnyProtocolError) -> None:
        self._add(session, sender, (), NOTHING, error, ENTRY_COST)

    def saw_end(self, session: TappedSession, reason: str) -> None:
        self._add(session, CLIENT, (), NOTHING, reason, ENTRY_COST)

    def _add(
        self,
        session: TappedSession,
        sender: Peer,
        frames: FrameChunk[Any] | tuple[()],
        note: Note,
        event: Event | None,
        cost: int,
    ) -> None:
        if self._missed and not isinstance(event, Missed):
            self._note_missed(session)
        entries = self.entries
        entries[self.end] = Entry(self._clock(), session, sender, frames, note, event, self.shown, cost)
        self.end += 1
        self.shown += event.frames if isinstance(event, Missed) else len(frames) or 1
        self._size += cost
        while self._size > self.memory and entries:
            overwritten = entries.pop(self.first)
            self._size -= overwritten.cost
            self.first += 1
            for cursor in self._told:
                if cursor.next < self.first:
                    with contained("reader failed", then=lambda _, failed=cursor: self.leave(failed)):  # type: ignore[misc]
                        cursor.miss(overwritten)
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for wake in waiting:
                wake()

    # --- traffic without a reader

    def _closes(self, cost: int) -> bool:
        """Close or reopen the ring as its readers require; return whether it is closed to an entry of this cost."""
        cursors = self._cursors
        if not self.is_closed:
            first = self.first
            if self._size + cost <= self.memory or len(self._told) != len(cursors) or not cursors:
                return False
            for cursor in cursors:
                if cursor.next > first:
                    return False
            self.is_closed = True
            return True
        if len(self._told) == len(cursors):
            end = self.end
            for cursor in cursors:
                if cursor.next >= end:
                    break
            else:
                return True
        self.is_closed = False
        self.joins += 1
        for session in list(islice(self._missed, MOST_MISSED)):
            self._note_missed(session)
        return False

    def _count(self, session: TappedSession, sender: Peer, frames: FrameChunk[Any], note: Note) -> None:
        """Count the frames of a session that pass while the ring is closed."""
        of_session = self._missed.get(session)
        if of_session is None:
            of_session = self._missed[session] = {}
        key = sender, _ON_LEG[note.leg]
        before = of_session.get(key, _NOTHING_MISSED)
        of_session[key] = Missed(before.frames + len(frames), before.size + frames.size)

    def _note_missed(self, session: TappedSession) -> None:
        """Add entries for the counted frames of a session."""
        for (sender, note), missed in self._missed.pop(session, {}).items():
            self._add(session, sender, (), note, missed, ENTRY_COST)


_NOTHING_MISSED = Missed(0, 0)
_ON_LEG = {"": NOTHING, **{leg: Note(leg=leg) for leg in ("client", "upstream")}}


class Cursor:
    """The position of one reader in a ring: initially at its end, or `from_start`.

    `on_missed` is called with each entry that was not taken: when it is overwritten, or skipped for its age.
    """

    def __init__(
        self, ring: TapRing, *, from_start: bool = False, on_missed: Callable[[Entry], None] | None = None
    ) -> None:
        self._ring = ring
        self.next = ring.first if from_start else ring.end
        self._read = ring.overwritten if from_start else ring.shown
        self._on_missed = on_missed
        self.is_skipping = False
        """Whether `skipped` has to be called again before an entry is taken."""
        ring.join(self)

    @property
    def is_told(self) -> bool:
        """Whether the cursor is told of missed entries."""
        return self._on_missed is not None

    def close(self) -> None:
        """End the reading, and drop the callback, whose owner often has a reference to this cursor."""
        self._ring.leave(self)
        self._on_missed = None

    @property
    def is_at_end(self) -> bool:
        """Whether all entries have been read."""
        return self.next >= self._ring.end

    def behind(self, now_ns: int) -> float:
        """Return the age of the next entry in seconds; 0 at the end."""
        entry = self._ring.entries.get(max(self.next, self._ring.first))
        return 0.0 if entry is None else max(0, now_ns - entry.ts_ns) / 1e9

    def take(self) -> Entry | None:
        """Take the next entry; None at the end. Call `skipped` before it, to pass over overwritten entries."""
        entry = self._ring.entries.get(self.next)
        if entry is not None:
            self.next += 1
            self._read = entry.before + entry.length
        return entry

    def skipped(self, before_ns: int | None = None) -> int:
        """Skip overwritten entries and those before `before_ns`; return the number of their frames and other events.

        At most `MOST_SKIPPED` are skipped for their age; the cursor `is_skipping` if there are more.
        """
        ring = self._ring
        self.next = max(self.next, ring.first)
        self.is_skipping = False
        if before_ns is not None:
            stop = self.next + MOST_SKIPPED
            while (entry := ring.entries.get(self.next)) is not None and entry.ts_ns < before_ns:
                if self.next >= stop:
                    self.is_skipping = True
                    break
                self.miss(entry)
        entry = ring.entries.get(self.next)
        skipped_to = ring.shown if entry is None else entry.before
        lost, self._read = skipped_to - self._read, skipped_to
        return lost

    def miss(self, entry: Entry) -> None:
        """Pass over the next entry, which is this one, and tell `on_missed`."""
        self.next += 1
        if self._on_missed is not None:
            self._on_missed(entry)
