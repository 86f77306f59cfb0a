"""A tap that forwards to another one only the commands that a filter selects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary, finalize

from amqproxy.amqp091.commands import MAX_BODY
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.proxy.memory_budget import MemoryBudget, MemoryShare
from amqproxy.rules.context import Client
from amqproxy.rules.dialects import DIALECTS, ConnectionFilter
from amqproxy.rules.matching.filters import Filter
from amqproxy.taps.dialects import chunk_of
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.protocol_error import AnyProtocolError
from amqproxy.taps.tap import DecodedOnly, Tap, TappedSession, present
from amqproxy.taps.trace.snapshot import ConnectionSnapshot


class FilteredTap(DecodedOnly):
    """Filter in front of `tap`, which is shown the commands that `wanted` selects, and every violation.

    Incomplete messages take at most `memory` bytes; one that exceeds this is shown, and so is one with a larger body
    than `body_limit` bytes if the filter needs the body. `clock` returns the time at which frames have passed, in
    nanoseconds since 1970. `keeps_frame` selects 0-9-1 frames that are always shown; if it is given, the
    controls of other protocols are shown, too.
    """

    may_miss_frames = False

    def __init__(
        self,
        tap: Tap,
        wanted: Filter,
        memory: int,
        body_limit: int = MAX_BODY,
        clock: Callable[[], int] = present,
        keeps_frame: Callable[[Frame], bool] | None = None,
    ) -> None:
        self._keeps_frame = keeps_frame
        self._tap = tap
        self._clock = clock
        self._wanted = wanted
        self._memory = MemoryBudget(memory)
        self._body_limit = body_limit
        self._filters: WeakKeyDictionary[TappedSession, ConnectionFilter] = WeakKeyDictionary()

    @property
    def joins(self) -> int:
        return self._tap.joins

    def saw_protocol_header(self, session: TappedSession, data: bytes, sender: Peer = CLIENT) -> None:
        """Show the header, which belongs to no command, only if frames are kept regardless of the filter."""
        if self._keeps_frame is not None:
            if sender is CLIENT:
                self._tap.saw_protocol_header(session, data)
            else:
                self._tap.saw_protocol_header(session, data, sender)

    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Any], note: Note = NOTHING) -> None:
        chunk = chunk_of(frames)
        found = self._filters.get(session)
        if found is None:
            share = MemoryShare(self._memory)
            found = self._filters[session] = DIALECTS[chunk.protocol].frames(
                self._wanted, Client.named(session.number, session.name), share, self._body_limit
            )
            finalize(found, share.clear)
        now = self._clock() / 1e9
        passed, ids = found.passing(sender, list(chunk), chunk.command_ids, now, note.tags, self._keeps_frame)
        if passed:
            self._tap.saw_frames(session, sender, chunk.chosen(passed, ids), note)

    def saw_gap(self, session: TappedSession, frames: int) -> None:
        self._filters.pop(session, None)  # the rest of incomplete messages may be missing
        self._tap.saw_gap(session, frames)

    def note_gap(self) -> None:
        """Discard incomplete messages after a gap in the frames shown."""
        self._filters.clear()

    def saw_snapshot(self, session: TappedSession, snapshot: ConnectionSnapshot) -> None:
        self._tap.saw_snapshot(session, snapshot)

    def saw_violation(self, session: TappedSession, sender: Peer, error: AnyProtocolError) -> None:
        self._tap.saw_violation(session, sender, error)

    def saw_end(self, session: TappedSession, reason: str) -> None:
        self._tap.saw_end(session, reason)
