"""A subscription to packets: the relayed traffic as an endless pcapng file."""

from __future__ import annotations

import time
from binascii import b2a_base64
from collections import deque
from collections.abc import Callable, Iterator

from amqproxy.capture.packet_pieces import Pieces
from amqproxy.control.finding_watch import FindingReader
from amqproxy.control.request import Subscribe
from amqproxy.control.session_sample import SessionSample
from amqproxy.control.subscription import RingSubscription
from amqproxy.control.tap_ring import Entry, Missed, TapRing
from amqproxy.peer import Peer
from amqproxy.recording import entry as recorded
from amqproxy.recording.entry_queue import EntryQueue
from amqproxy.recording.recorder_tap import RecorderTap
from amqproxy.recording.recording_encoder import RecordingEncoder
from amqproxy.taps.frame_chunk import FrameChunk
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.note import Note
from amqproxy.taps.record import encoded
from amqproxy.taps.tap import TappedSession
from amqproxy.taps.trace.snapshot import ConnectionSnapshot

EVENT_BYTES = 48 * 1024
"""Approximate bytes of packets in an event: in base64 they fill a batch."""

EVENT_SECONDS = 0.1
"""Seconds after which an event is sent that is not full, though the ring is not read to its end."""

ENTRIES_A_LOOK = 64
"""Entries encoded before other tasks have their turn; there are many when many sessions have ended."""

_NONE: dict[tuple[Peer, str], Missed] = {}
_NOTHING = Missed(0, 0)
_BLOCK_LENGTH_AT = 4
_OPEN = 1


class PacketSubscription(RingSubscription):
    """Packets for one client, as a recording would have them.

    Its events, put together, are a pcapng file; each has whole blocks, and the first begins with those that describe
    the section and its interfaces. Frames that this client was too slow for are missing from their connections, and
    are counted; the end of a session is never missing.
    """

    def __init__(
        self,
        request: Subscribe,
        ring: TapRing,
        metrics: Metrics,
        wake: Callable[[], None],
        findings: FindingReader | None = None,
    ) -> None:
        """Send also the events of `findings`."""
        super().__init__(request, ring, metrics, wake, self._miss)
        self._findings = findings
        self._entries = _Entries()
        self._now_ns = time.time_ns()
        self._tap = RecorderTap(self._entries, _ignore, self._count_lost, clock=lambda: self._now_ns)
        self._encoder = RecordingEncoder(request.legs)
        header = self._encoder.begin(self._now_ns)
        self._pieces: Pieces = [header]
        self._blocks = memoryview(b"")
        self._size = len(header)
        self._lost = 0
        self._sample = SessionSample()
        self._sampled: int | None = None
        """Number of sessions shown at the same time, as the client was told."""
        self._is_more = True
        self._sent_at = time.monotonic()
        self._left_out: dict[TappedSession, dict[tuple[Peer, str], Missed]] = {}
        """Frames of sessions that were left out since the last entry shown."""

    def look(self) -> bool:
        """Encode some of the ring's entries as packets; False when there is nothing more."""
        self._is_more = self._look()
        return self._is_more

    def _look(self) -> bool:
        if self._size >= EVENT_BYTES:
            return True
        if self._skip():
            self._sample.narrow(time.time_ns())
        if self._cursor.is_skipping:
            return True
        if not self._entries and not self._take():
            return False
        self._encode()
        return True

    def _take(self) -> bool:
        """Take the next entry that is shown, if it is near, and all before it; return whether there may be more."""
        shows, next_entry = self._sample.shows, self._next_entry
        for _ in range(ENTRIES_A_LOOK):
            entry = next_entry()
            if entry is None:
                return False
            if isinstance(entry.event, Missed):
                self._miss(entry)
            elif not shows(entry):
                self._leave_out(entry)
            else:
                self._show(entry)
                break
        if self._sample.awaits_state:
            self._sample.awaits_state = False
            self._awaits_rejoin = True
        return True

    def events(self) -> Iterator[bytes]:
        """Yield the number of lost frames, the packets, and the findings."""
        yield from self._packet_events()
        if self._findings is not None:
            yield from self._findings.take()

    def _packet_events(self) -> Iterator[bytes]:
        """Yield the number of lost frames, and the packets: once they fill an event, and every `EVENT_SECONDS`."""
        now = time.monotonic()
        if self._is_more and self._size < EVENT_BYTES and now - self._sent_at < EVENT_SECONDS:
            return
        self._sent_at = now
        if self._sampled != self._sample.most:
            self._sampled = self._sample.most
            yield encoded({"event": "sample", "shown": self._sampled, "of": self._sample.active})
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
        for (sender, leg), missed in self._left_out.pop(entry.session, _NONE).items():
            self._tap.lose_frames(entry.session, sender, *missed, Note(leg=leg))
        entry.show(self._tap)

    def _miss(self, entry: Entry) -> None:
        """Leave out a missed entry."""
        self._sample.miss(entry)
        self._leave_out(entry)

    def _leave_out(self, entry: Entry) -> None:
        """Leave out the data of an entry, but account for it: its bytes are lost, a session's end is kept."""
        frames, event = entry.frames, entry.event
        if isinstance(frames, FrameChunk):  # a cheaper way, since there may be many chunks
            self._lose(entry, len(frames), frames.size)
        elif isinstance(event, Missed):
            self._lose(entry, *event)
        elif not isinstance(event, ConnectionSnapshot):
            self._entries.close()
            try:
                self._show(entry)
            finally:
                self._entries.open()

    def _lose(self, entry: Entry, frames: int, size: int) -> None:
        """Count frames that the next entry of their session has before it."""
        self._lost += frames
        of_session = self._left_out.get(entry.session)
        if of_session is None:
            of_session = self._left_out[entry.session] = {}
        key = entry.sender, entry.note.leg
        before = of_session.get(key, _NOTHING)
        of_session[key] = Missed(before[0] + frames, before[1] + size)

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
