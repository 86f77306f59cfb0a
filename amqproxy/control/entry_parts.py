"""A ring's entries, shown to a tap in parts of bounded work."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any

from amqproxy.control.tap_ring import Entry
from amqproxy.taps.frame_chunk import FrameChunk
from amqproxy.taps.note import Note
from amqproxy.taps.tap import Tap
from amqproxy.taps.trace.snapshot import ConnectionSnapshot
from amqproxy.taps.trace_tap import TraceTap

FRAMES_A_LOOK = 64
"""Frames of one chunk that are shown before other tasks have their turn."""

CHANNELS_A_LOOK = 32
"""Channels of a snapshot that are restored before other tasks have their turn; each takes some 30 µs."""


class EntryClock:
    """Time at which the shown frames passed; a separate object, so that a tap does not keep its subscription alive."""

    __slots__ = ("now_ns",)

    def __init__(self) -> None:
        self.now_ns = time.time_ns()

    def __call__(self) -> int:
        return self.now_ns


class EntryParts:
    """Shows entries to a tap, and sets `clock` to their time; chunks of frames, and snapshots, are shown in parts."""

    def __init__(self, tap: Tap, clock: EntryClock) -> None:
        self._tap = tap
        self._clock = clock
        self._entry: Entry | None = None
        self._parts: deque[tuple[FrameChunk[Any], Note]] = deque()
        self._steps: Iterator[None] = iter(())

    def show(self, entry: Entry) -> None:
        """Show an entry, or the first `FRAMES_A_LOOK` of its frames."""
        self._clock.now_ns = entry.ts_ns
        if entry.frames:
            self._entry, self._parts = entry, deque(entry.frames.noted_parts(FRAMES_A_LOOK, entry.note))
            self.show_some()
        elif isinstance(entry.event, ConnectionSnapshot) and isinstance(self._tap, TraceTap):
            self._steps = self._tap.showing_snapshot(entry.session, entry.event)
            self.show_some()
        else:
            entry.show(self._tap)

    def show_some(self) -> bool:
        """Show the next `FRAMES_A_LOOK` frames of the last entry, or channels; return whether there were any."""
        if sum(1 for _ in islice(self._steps, CHANNELS_A_LOOK)):
            return True
        if self._entry is None or not self._parts:
            return False
        self._tap.saw_frames(self._entry.session, self._entry.sender, *self._parts.popleft())
        return True

    def clear(self) -> None:
        """Drop the rest of the last entry."""
        self._entry = None
        self._parts.clear()
        self._steps = iter(())
