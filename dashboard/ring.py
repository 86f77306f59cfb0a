"""What passed most recently, in rows that are numbered for ever; bounded in bytes and in rows."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable

import msgspec

from amqproxy.capture.decoded import Decoded, DecodedFrames, DecodedProtocolHeader, SkippedBytes, StreamEnded
from amqproxy.taps.amqp010.chunk import Amqp010Chunk
from amqproxy.taps.frame_chunk import FrameChunk
from dashboard.missing_frames import MissingFrames
from dashboard.shared_rows import SharedRows

MAX_ROWS = 2_000_000
"""Rows of a ring."""

ENTRY_COST = 640
"""Bytes that an entry takes, about, besides its frames."""

FRAME_COST = 192
"""Bytes that a frame takes besides its own, about, where frames are kept one by one."""

ID_COST = 40
"""Bytes that the id of a frame's command takes, about."""


class RingEntry(msgspec.Struct, frozen=True, gc=False):
    """What one packet completed: `count` rows, the first of which is numbered `seq`; none for the end of a connection.

    `came_at` is when it came here, on the clock that never goes back.
    """

    seq: int
    count: int
    came_at: float
    decoded: Decoded | MissingFrames
    cost: int

    @property
    def ts_ns(self) -> int:
        return self.decoded.ts_ns

    def fresh(self) -> Decoded | MissingFrames:
        """What was decoded, for one reader: frames that it makes are not kept."""
        decoded = self.decoded
        if isinstance(decoded, DecodedFrames) and isinstance(decoded.frames, FrameChunk):
            return msgspec.structs.replace(decoded, frames=decoded.frames.unmade())
        return decoded


class Ring:
    """Entries in `memory` bytes and `rows` rows; the oldest are overwritten.

    `wake` of each listener is called when there is more: once for all that is added before `notify`.
    """

    def __init__(self, memory: int, rows: int = MAX_ROWS, clock: Callable[[], float] = time.monotonic) -> None:
        self.memory = memory
        self.rows = rows
        self.entries: dict[int, RingEntry] = {}
        self.shared = SharedRows()
        self.first = self.end = 0
        """The number of the oldest entry that is kept, and of the next to come."""
        self.next_seq = 0
        self.size = 0
        self.newest_ns = 0
        """The time of what came last."""
        self._clock = clock
        self._listeners: list[Callable[[], None]] = []

    @property
    def first_seq(self) -> int:
        """The oldest row that is kept, or the next to come."""
        return self.entries[self.first].seq if self.entries else self.next_seq

    def append(self, decoded: Decoded | MissingFrames) -> RingEntry:
        """Keep what was decoded, or that it is missing."""
        count = 1
        cost = ENTRY_COST
        if isinstance(decoded, DecodedFrames):
            frames = decoded.frames
            count = len(frames)
            if isinstance(frames, FrameChunk):
                decoded = msgspec.structs.replace(decoded, frames=frames.unmade())
                cost += len(frames.data)
                if isinstance(frames, Amqp010Chunk):
                    cost += ID_COST * count
            else:
                cost += sum([frame.size + FRAME_COST for frame in frames])
        elif isinstance(decoded, StreamEnded):
            count = 0
        elif isinstance(decoded, DecodedProtocolHeader | SkippedBytes):
            cost += len(decoded.data)
        entry = RingEntry(self.next_seq, count, self._clock(), decoded, cost)
        self.entries[self.end] = entry
        self.end += 1
        self.next_seq += count
        self.size += cost
        self.newest_ns = decoded.ts_ns
        while (self.size > self.memory or self.next_seq - self.first_seq > self.rows) and len(self.entries) > 1:
            self.size -= self.entries.pop(self.first).cost
            self.first += 1
        return entry

    # --- reading

    def unnumbered(self, decoded: Decoded) -> RingEntry:
        """An entry for what has no row, and is not kept, that comes now."""
        return RingEntry(self.next_seq, 0, self._clock(), decoded, 0)

    def number_of(self, seq: int) -> int:
        """The number of the entry that has this row, or of the first behind it; the oldest, where it is gone."""
        if seq >= self.next_seq:
            return self.end
        numbers = range(self.first, self.end)
        return self.first + max(0, bisect_right(numbers, seq, key=lambda number: self.entries[number].seq) - 1)

    def number_at(self, ts_ns: int) -> int:
        """The number of the first entry from this time on; the times of captures are mostly in order."""
        numbers = range(self.first, self.end)
        return self.first + bisect_left(numbers, ts_ns, key=lambda number: self.entries[number].ts_ns)

    def entry_of(self, seq: int) -> RingEntry | None:
        """The entry that has this row; None where it is gone, or did not come yet."""
        if not self.first_seq <= seq < self.next_seq:
            return None
        number = self.number_of(seq)
        while (entry := self.entries[number]).seq + entry.count <= seq:  # ends of connections have no row
            number += 1
        return entry

    def snapshot(self, start: int | None = None, stop: int | None = None) -> list[RingEntry]:
        """The entries of these numbers, for a thread: the ring may go on meanwhile."""
        start = self.first if start is None else max(start, self.first)
        stop = self.end if stop is None else min(stop, self.end)
        return [self.entries[number] for number in range(start, stop)]

    # --- who is woken

    def listen(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever there is more."""
        self._listeners.append(wake)

    def forget(self, wake: Callable[[], None]) -> None:
        """Do not call it any more."""
        if wake in self._listeners:
            self._listeners.remove(wake)

    def notify(self) -> None:
        """Tell the listeners that there is more."""
        for wake in self._listeners:
            wake()
