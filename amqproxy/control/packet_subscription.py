"""A subscription to packets: the relayed traffic as an endless pcapng file."""

from __future__ import annotations

import time
from binascii import b2a_base64
from collections import deque
from collections.abc import Callable, Iterator

from amqproxy.capture.packet_pieces import Pieces
from amqproxy.control.request import Subscribe
from amqproxy.control.subscription import Subscription
from amqproxy.control.tap_ring import Entry, Missed, TapRing
from amqproxy.recording import entry as recorded
from amqproxy.recording.entry_queue import EntryQueue
from amqproxy.recording.recorder_tap import RecorderTap
from amqproxy.recording.recording_encoder import RecordingEncoder
from amqproxy.taps.frame_chunk import FrameChunk
from amqproxy.taps.metrics import Metrics

EVENT_BYTES = 48 * 1024
"""Approximate bytes of packets in an event: in base64 they fill a batch."""

ENTRIES_A_LOOK = 64
"""Entries encoded before other tasks have their turn; there are many when many sessions have ended."""

_BLOCK_LENGTH_AT = 4
_OPEN = 1


class PacketSubscription(Subscription):
    """Packets for one client, as a recording would have them.

    Its events, put together, are a pcapng file; each has whole blocks, and the first begins with those that describe
    the section and its interfaces. Frames that this client was too slow for are missing from their connections, and
    are counted; the end of a session is never missing.
    """

    def __init__(
        self, request: Subscribe, ring: TapRing, metrics: Metrics, wake: Callable[[], None], legs: str = "both"
    ) -> None:
        super().__init__(request, ring, metrics, wake, self._miss)
        self._entries = _Entries()
        self._now_ns = time.time_ns()
        self._tap = RecorderTap(self._entries, _ignore, self._count_lost, clock=lambda: self._now_ns)
        self._encoder = RecordingEncoder(legs)
        header = self._encoder.begin(self._now_ns)
        self._pieces: Pieces = [header]
        self._blocks = memoryview(b"")
        self._size = len(header)
        self._lost = 0
        self._is_more = True

    def look(self) -> bool:
        """Encode some of the ring's entries as packets; False when there is nothing more."""
        self._is_more = self._look()
        return self._is_more

    def _look(self) -> bool:
        if self._size >= EVENT_BYTES:
            return True
        self._skip()
        if self._cursor.is_skipping:
            return True
        if not self._entries:
            entry = self._next_entry()
            if entry is None:
                return False
            self._show(entry)
        self._encode()
        return True

    def events(self) -> Iterator[bytes]:
        """Yield the number of lost frames, and the packets once they fill an event or the ring is read to its end."""
        if self._is_more and self._size < EVENT_BYTES:
            return
        lost, self._lost = self._lost, 0
        if lost:
            self._dropped.inc(lost)
            yield b'{"event":"lost","count":%d}' % lost
        if not self._blocks:
            self._blocks, self._pieces = memoryview(b"".join(self._pieces)), []
        end = _end_of_event(self._blocks)
        data, self._blocks = self._blocks[:end], self._blocks[end:]
        self._size -= end
        if data:
            yield b'{"event":"packets","data":"%b"}' % b2a_base64(data, newline=False)

    def close(self) -> None:
        super().close()
        # This object is part of a reference cycle: without this, megabytes would wait for the cyclic garbage collector.
        self._pieces, self._blocks, self._size = [], memoryview(b""), 0
        self._entries.clear()

    def _encode(self) -> None:
        for entry in self._entries.take(ENTRIES_A_LOOK):
            pieces = self._encoder.encode(entry)
            self._pieces += pieces
            self._size += sum(map(len, pieces))
        self._encoder.note_written()

    def _show(self, entry: Entry) -> None:
        self._now_ns = entry.ts_ns
        if isinstance(entry.event, Missed):
            self._lose(entry, *entry.event)
        else:
            entry.show(self._tap)

    def _lose(self, entry: Entry, frames: int, size: int) -> None:
        self._tap.lose_frames(entry.session, entry.sender, frames, size, entry.note)

    def _miss(self, entry: Entry) -> None:
        """Leave out the data of a missed entry, but account for it: its bytes are lost, a session's end is kept."""
        self._entries.close()
        try:
            if isinstance(entry.frames, FrameChunk):  # a cheaper way, since there may be many chunks
                self._lose(entry, len(entry.frames), entry.frames.size)
            else:
                self._show(entry)
        finally:
            self._entries.open()

    def _count_lost(self, frames: int) -> None:
        self._lost += frames


def _ignore(session: int, size: int) -> None:
    """Wake no reader: entries are taken as soon as they are made."""


class _Entries(EntryQueue):
    """Entries that wait to be encoded as packets; while it is closed, only losses and the ends of sessions."""

    def __init__(self) -> None:
        super().__init__(_OPEN)
        self._waiting: deque[recorded.Entry] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def open(self) -> None:
        self.memory = _OPEN

    def close(self) -> None:
        self.memory = 0

    def has_room(self, size: int) -> bool:
        return self.memory > 0

    def add(self, entry: recorded.Entry) -> None:
        self._waiting.append(entry)

    def clear(self) -> None:
        self._waiting.clear()

    def take(self, most: int) -> list[recorded.Entry]:
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]


def _end_of_event(blocks: memoryview) -> int:
    """Return the end of the block that completes an event: all blocks up to twice `EVENT_BYTES`."""
    if len(blocks) <= 2 * EVENT_BYTES:
        return len(blocks)
    position = 0
    while position < EVENT_BYTES:
        start = position + _BLOCK_LENGTH_AT
        position += int.from_bytes(blocks[start : start + 4], "little")
    return position
