"""A tap that forwards to another one only the commands that a filter selects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary, finalize

from amqproxy.amqp010.controls import SessionCommandPoint
from amqproxy.amqp010.frame import CONTROL_TRACK
from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp091.commands import MAX_BODY
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.proxy.memory_budget import MemoryBudget, MemoryShare
from amqproxy.rules.amqp010.assembly_filter import AssemblyFilter
from amqproxy.rules.context import Client
from amqproxy.rules.engine.frame_filter import FrameFilter
from amqproxy.rules.matching.filters import Filter
from amqproxy.taps.amqp010.chunk import Amqp010Chunk
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.protocol_error import AnyProtocolError
from amqproxy.taps.tap import Tap, TappedSession, present


class FilteredTap:
    """Filter in front of `tap`, which is shown the commands that `wanted` selects, and every violation.

    Incomplete messages take at most `memory` bytes; one that exceeds this is shown, and so is one with a larger body
    than `body_limit` bytes if the filter needs the body. `clock` returns the time at which frames have passed, in
    nanoseconds since 1970. Frames selected by `keeps_frame` are always shown; if it is given, so are 0-10 controls,
    except session.command-point.
    """

    requires_decoding = True
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
        self._assemblies: WeakKeyDictionary[TappedSession, AssemblyFilter[int | None]] = WeakKeyDictionary()
        self._sieves: WeakKeyDictionary[TappedSession, FrameFilter] = WeakKeyDictionary()

    def saw_protocol_header(self, session: TappedSession, data: bytes, sender: Peer = CLIENT) -> None:
        """Show the header, which belongs to no command, only if frames are kept regardless of the filter."""
        if self._keeps_frame is not None:
            if sender is CLIENT:
                self._tap.saw_protocol_header(session, data)
            else:
                self._tap.saw_protocol_header(session, data, sender)

    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Any], note: Note = NOTHING) -> None:
        if isinstance(frames, Amqp010Chunk):
            self._saw_amqp010_frames(session, sender, frames, note)
            return
        sieve = self._sieves.get(session)
        if sieve is None:
            client = Client.named(session.number, session.name)
            share = MemoryShare(self._memory)
            sieve = self._sieves[session] = FrameFilter(self._wanted, client, share, self._body_limit)
            finalize(sieve, share.clear)
        now = self._clock() / 1e9
        if self._keeps_frame is None:
            passed = sieve.sift(sender, list(frames), now, note.tags)
        else:
            passed = []
            for frame in frames:
                passed += [frame] if self._keeps_frame(frame) else sieve.sift(sender, [frame], now, note.tags)
        if passed:
            self._tap.saw_frames(session, sender, passed, note)

    def _saw_amqp010_frames(self, session: TappedSession, sender: Peer, frames: Amqp010Chunk, note: Note) -> None:
        assemblies = self._assemblies.get(session)
        if assemblies is None:
            client = Client.named(session.number, session.name)
            share = MemoryShare(self._memory)
            assemblies = self._assemblies[session] = AssemblyFilter(self._wanted, client, share)
            finalize(assemblies, share.clear)
        now = self._clock() / 1e9
        if self._keeps_frame is None:
            found = assemblies.sift(sender, list(frames), frames.command_ids, now)
        else:
            found = []
            for frame, number in zip(frames, frames.command_ids, strict=True):
                if frame.track == CONTROL_TRACK:
                    # Omitting it leaves the reader without command ids; with it, the ids would be wrong.
                    found += [] if frame.index == SessionCommandPoint.index else [(frame, number)]
                else:
                    found += assemblies.sift(sender, [frame], [number], now)
        if found:
            self._tap.saw_frames(session, sender, _chunk(found), note)

    def saw_gap(self, session: TappedSession, frames: int) -> None:
        self._sieves.pop(session, None)  # the rest of incomplete messages may be missing
        self._assemblies.pop(session, None)
        self._tap.saw_gap(session, frames)

    def note_gap(self) -> None:
        """Discard incomplete messages after a gap in the frames shown."""
        self._sieves.clear()
        self._assemblies.clear()

    def saw_violation(self, session: TappedSession, sender: Peer, error: AnyProtocolError) -> None:
        self._tap.saw_violation(session, sender, error)

    def saw_end(self, session: TappedSession, reason: str) -> None:
        self._tap.saw_end(session, reason)


def _chunk(found: Sequence[tuple[Amqp010Frame, int | None]]) -> Amqp010Chunk:
    """Return a chunk of frames that need not be adjacent; its offset is that of the first."""
    data = b"".join([frame.raw for frame, _ in found])
    return Amqp010Chunk(data, found[0][0].offset, [number for _, number in found])
