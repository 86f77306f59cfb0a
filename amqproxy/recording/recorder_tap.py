"""The tap of a recording, which turns tap callbacks into entries."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from amqproxy.amqp091.protocol_header import recognise
from amqproxy.capture.packet_snapshot import MAX_SNAPSHOT_BYTES
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.recording.dialects import dialect_of
from amqproxy.recording.entry import (
    CLIENT_LEG,
    LEGS,
    UPSTREAM_LEG,
    Ended,
    Entry,
    Event,
    Lost,
    RecordedConnection,
    Snapshot,
    Violation,
    file_end,
)
from amqproxy.recording.entry_queue import ENTRY_COST, EntryQueue
from amqproxy.taps.dialects import chunk_of
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.protocol_error import AnyProtocolError
from amqproxy.taps.tap import TappedSession
from amqproxy.taps.trace.snapshot import ConnectionSnapshot

EVENTS_SHARE = 2
"""Multiple of its memory up to which the queue accepts the ends of sessions, even if frames find no room."""

_new: Callable[[type[Entry], tuple[Any, ...]], Entry] = tuple.__new__
"""Constructor of entries without the call in Python that `Entry` makes: it is needed for each chunk."""

_LEGS_OF = {"": (CLIENT_LEG, UPSTREAM_LEG), CLIENT_LEG: (CLIENT_LEG,), UPSTREAM_LEG: (UPSTREAM_LEG,)}


class RecorderTap:
    """Puts entries into `queue`; frames that find no room are counted, and the count precedes the next entry.

    `wake` is called after each entry that completes a batch, with the session's number and the size of the entry;
    `count_dropped` with the number of frames that are not recorded.
    """

    may_miss_frames = False

    def __init__(
        self,
        queue: EntryQueue,
        wake: Callable[[int, int], None],
        count_dropped: Callable[[int], None],
        *,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._queue = queue
        self._wake = wake
        self._count_dropped = count_dropped
        self._clock = clock
        self._connections: dict[TappedSession, _Seen] = {}
        self.joins = 1
        """Number of times that the tap has joined running sessions: with each file, and after losses."""

    def end_file(self) -> None:
        """Begin the next file behind all entries so far, with the states of all sessions: it is read alone."""
        self._queue.add(file_end())
        self.joins += 1

    @property
    def connections(self) -> int:
        """Number of sessions being recorded."""
        return len(self._connections)

    def saw_protocol_header(self, session: TappedSession, data: bytes, sender: Peer = CLIENT) -> None:
        protocol = recognise(data)
        if sender is SERVER:
            seen = self._seen(session, protocol)
            if seen.header:
                self._connect_upstream(session, seen)
            self._add(seen, SERVER, data, NOTHING)
            return
        seen = self._connections[session] = _Seen(_connection(session, protocol, is_joined=False), header=data)
        self._add(seen, CLIENT, data, _AT_CLIENT)

    def saw_shared(self, leg: TappedSession, header: bytes = b"") -> None:
        """Record a connection that sessions share, on the upstream leg: from its beginning, or without a `header`."""
        connection = RecordedConnection(leg.number, leg.name, leg.is_tls, not header, leg.upstream_name, is_shared=True)
        seen = self._connections[leg] = _Seen(connection)
        if header:
            self._add(seen, CLIENT, header, _AT_UPSTREAM)

    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Any], note: Note = NOTHING) -> None:
        chunk = chunk_of(frames)
        seen = self._connections.get(session)
        if seen is None or not seen.is_recorded:
            seen = self._seen(session, chunk.protocol)
        if seen.header and note.leg != CLIENT_LEG:
            self._connect_upstream(session, seen)
        data = chunk.data
        if data and not seen.lost:  # nearly always; everything else takes several times as long
            queue, size = self._queue, ENTRY_COST + len(data)
            waiting = queue.offer(_new(Entry, (self._clock(), seen.connection, sender, data, note, None)), size)
            if waiting:
                seen.is_recorded = True
                if waiting >= queue.batch:
                    self._wake(seen.connection.number, size)
                return
        self._add(seen, sender, data, note, frames=chunk)

    def saw_snapshot(self, session: TappedSession, snapshot: ConnectionSnapshot) -> None:
        """Record the state of a session on its client's leg, with which a file can be read alone.

        The state of the upstream leg differs: its limits, tags and numbers are those of the proxy's own connection. A
        snapshot that finds no room is left out.
        """
        data = snapshot.to_bytes()
        if len(data) <= MAX_SNAPSHOT_BYTES and self._queue.has_room(len(data)):
            self._add(self._seen(session, snapshot.protocol), CLIENT, data, _AT_CLIENT, event=_CLIENT_SNAPSHOT)

    def lose_frames(self, session: TappedSession, sender: Peer, frames: int, size: int, note: Note) -> None:
        """Note frames that passed without being recorded, of `size` bytes in total; the caller has counted them."""
        seen = self._seen(session)
        if seen.header and note.leg != CLIENT_LEG:
            self._connect_upstream(session, seen)
        for leg in _LEGS_OF[note.leg]:
            seen.lose(sender, leg, frames, size)

    def saw_bytes(self, session: TappedSession, sender: Peer, protocol: str, data: bytes) -> None:
        seen = self._seen(session, protocol)
        if seen.header:
            self._connect_upstream(session, seen)
        self._add(seen, sender, data, NOTHING)

    def saw_gap(self, session: TappedSession, frames: int) -> None:
        seen = self._seen(session)
        for leg in _LEGS_OF[""]:
            seen.lose(CLIENT, leg, frames, 0)
        self._count_dropped(frames)

    def saw_violation(self, session: TappedSession, sender: Peer, error: AnyProtocolError) -> None:
        note = Note(leg=LEGS[sender])
        event = Violation(int(error.code), error.reply_text, error.channel, error.offset)
        self._add(self._seen(session, error.protocol), sender, error.received, note, event=event)

    def saw_end(self, session: TappedSession, reason: str) -> None:
        seen = self._connections.pop(session, None)
        if seen is not None:
            self._add(seen, CLIENT, b"", NOTHING, event=Ended(reason))

    def _connect_upstream(self, session: TappedSession, seen: _Seen) -> None:
        """Record the client's protocol header on the upstream leg, where it was sent, since the broker has answered."""
        header, seen.header = seen.header, b""
        seen.connection.upstream_name = session.upstream_name
        self._add(seen, CLIENT, header, _AT_UPSTREAM)

    def _seen(self, session: TappedSession, protocol: str | None = None) -> _Seen:
        seen = self._connections.get(session)
        if seen is None:
            seen = self._connections[session] = _Seen(_connection(session, protocol, is_joined=True))
        elif protocol is not None and not seen.is_recorded:
            seen.connection.dialect = dialect_of(protocol)  # a loss, which names no protocol, came first
        return seen

    def _add(
        self,
        seen: _Seen,
        sender: Peer,
        data: bytes,
        note: Note,
        *,
        frames: Sequence[Any] = (),
        event: Event | None = None,
    ) -> None:
        queue = self._queue
        if data and not queue.has_room(len(data)):
            count = len(frames) or 1
            for leg in _LEGS_OF[note.leg]:
                seen.lose(sender, leg, count, len(data))
            self._count_dropped(count)
            if event is None:
                return
            data = b""
        if not (data or seen.is_recorded) and queue.size >= EVENTS_SHARE * queue.memory:
            return  # otherwise the ends of unrecorded sessions would fill the memory
        seen.is_recorded = True
        now = self._clock()
        for (lost_by, leg), (lost_frames, lost_size) in seen.lost.items():
            queue.add(Entry(now, seen.connection, lost_by, b"", NOTHING, Lost(leg, lost_frames, lost_size)))
        seen.lost.clear()
        queue.add(Entry(now, seen.connection, sender, data, note, event))
        if queue.size >= queue.batch:
            self._wake(seen.connection.number, ENTRY_COST + len(data))


_AT_CLIENT = Note(leg=CLIENT_LEG)
_AT_UPSTREAM = Note(leg=UPSTREAM_LEG)
_CLIENT_SNAPSHOT = Snapshot(CLIENT_LEG)


class _Seen:
    """A session: its protocol header until that is recorded upstream, and the losses since the last entry.

    It `is_recorded` once it has an entry.
    """

    __slots__ = ("connection", "header", "is_recorded", "lost")

    def __init__(self, connection: RecordedConnection, header: bytes = b"") -> None:
        self.connection = connection
        self.header = header
        self.is_recorded = False
        self.lost: dict[tuple[Peer, str], tuple[int, int]] = {}

    def lose(self, sender: Peer, leg: str, frames: int, size: int) -> None:
        """Count frames of a leg as lost."""
        before = self.lost.get((sender, leg), (0, 0))
        self.lost[sender, leg] = before[0] + frames, before[1] + size


def _connection(session: TappedSession, protocol: str | None, *, is_joined: bool) -> RecordedConnection:
    upstream_name = session.upstream_name if is_joined else ""
    dialect = dialect_of(protocol)
    return RecordedConnection(session.number, session.name, session.is_tls, is_joined, upstream_name, dialect)
