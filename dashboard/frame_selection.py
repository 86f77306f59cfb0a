"""Selection of a ring's frames by connection, by channel, or by a filter on their commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from amqproxy.amqp091.frame import HEARTBEAT, METHOD, Frame
from amqproxy.amqp091.transitions import Peer
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import Decoded, DecodedFrames, SkippedBytes, StreamEnded
from amqproxy.dashboard.missing_frames import MissingFrames
from amqproxy.dashboard.ring_entry import RingEntry
from amqproxy.dashboard.selected import Selected, narrowed
from amqproxy.dashboard.selection import ClientOf, Place, Selection, named_client
from amqproxy.rules.amqp010.assembly_filter import AssemblyFilter
from amqproxy.rules.context import Client
from amqproxy.rules.engine.frame_filter import FrameFilter
from amqproxy.rules.matching.filters import Filter
from amqproxy.rules.verdict import Stage

MAX_STREAMS = 20_000
"""Maximum number of connections whose incomplete commands a selection follows; beyond it all are forgotten."""

MAX_HELD_FRAMES = 4096
"""Maximum number of frames that are held until a command's filter decides; of a longer command, the last ones."""


class FrameSelection(Selection):
    """Selects frames from entries that are passed in order."""

    def __init__(
        self,
        filter: str | None = None,
        place: Place | None = None,
        client_of: ClientOf = named_client,
        *,
        faults: bool = False,
    ) -> None:
        super().__init__(filter, place, client_of, faults=faults)
        self._streams: dict[int, _Stream | _Amqp010Stream] = {}

    @property
    def chooses_all(self) -> bool:
        return self._filter is None and self._place.is_everywhere

    def waits(self, entries: Iterable[RingEntry]) -> bool:
        """Whether the selection of these entries' frames may depend on later entries.

        A 0-10 command may span several frames before its content begins.
        """
        if self._filter is None:
            return False
        if self._filter.condition.stage > Stage.METHOD:
            return True
        return any(isinstance(each.decoded, Amqp010DecodedFrames) for each in entries)

    def forget(self) -> None:
        """Forget incomplete commands before entries that do not follow the previous ones."""
        self._streams.clear()

    def select(self, entry: RingEntry, after: int = -1) -> list[Selected]:
        """Return the selected rows after `after` of an entry, and of earlier entries that waited for it."""
        kept = entry.decoded
        if isinstance(kept, MissingFrames):  # the lost frames are unknown, so that no filter applies
            return [Selected(kept, (entry.seq,))] if entry.seq > after else []
        if not self._place.has_connection(kept):
            return []
        decoded = entry.fresh()
        assert not isinstance(decoded, MissingFrames)
        if not isinstance(decoded, DecodedFrames):
            return self._select_other(entry, decoded, after)
        seqs: Sequence[int] = range(entry.seq, entry.seq + entry.count)
        channel = self._place.channel
        is_filtered = self._filter is not None
        chosen: Selected | None = Selected(decoded, seqs)
        if channel is not None or (not is_filtered and after >= entry.seq):
            chosen = narrowed(
                decoded,
                seqs,
                lambda seq, frame: (channel is None or frame.channel == channel) and (is_filtered or seq > after),
            )
        if chosen is None:
            return []
        return self._filtered(entry, chosen, after) if is_filtered else [chosen]

    def _select_other(self, entry: RingEntry, decoded: Decoded, after: int) -> list[Selected]:
        """Select rows that are not frames: a filter selects undecodable bytes only with the faults."""
        if isinstance(decoded, StreamEnded):
            self._streams.pop(decoded.stream, None)
            return []
        if entry.seq <= after or (
            self._filter is not None and not (self._faults and isinstance(decoded, SkippedBytes))
        ):
            return []
        channel = self._place.channel
        if channel is not None and getattr(decoded, "channel", None) != channel:
            return []
        return [Selected(decoded, range(entry.seq, entry.seq + 1))]

    def _filtered(self, entry: RingEntry, chosen: Selected, after: int) -> list[Selected]:
        assert self._filter is not None
        decoded, seqs = chosen
        assert isinstance(decoded, DecodedFrames)
        stream = self._streams.get(decoded.stream)
        if stream is None:
            if len(self._streams) >= MAX_STREAMS:
                self._streams.clear()
            client = self._client_of(decoded.stream, decoded.connection, entry.seq)
            kind = _Stream if isinstance(decoded, Amqp091DecodedFrames) else _Amqp010Stream
            stream = self._streams[decoded.stream] = kind(self._filter, client)
        if isinstance(decoded, Amqp091DecodedFrames):
            assert isinstance(stream, _Stream)  # a connection has one protocol
            found = stream.sift(decoded, list(zip(seqs, decoded.frames, strict=True)))
        else:
            assert isinstance(stream, _Amqp010Stream)
            assert isinstance(decoded, Amqp010DecodedFrames)
            found = stream.sift(decoded, seqs)
        return [
            Selected(each.decoded, [seq for seq in each.seqs if seq > after]) for each in found if each.seqs[0] > after
        ]


class _Stream:
    """Filter of one 0-9-1 connection, with the frames of commands that it has not decided about."""

    def __init__(self, chosen: Filter, client: Client) -> None:
        self._filter = FrameFilter(chosen, client)
        self._waits = chosen.condition.stage > Stage.METHOD
        self._held: dict[tuple[str, int], list[tuple[int, Frame, Amqp091DecodedFrames]]] = {}

    def sift(self, decoded: Amqp091DecodedFrames, frames: list[tuple[int, Frame]]) -> list[Selected]:
        """Return the frames that the filter has selected, in the order in which it passes them."""
        sender, seconds, tags = Peer(decoded.sender), decoded.ts_ns / 1e9, decoded.note.tags
        sift = self._filter.sift
        if not self._waits:
            passing = set(map(id, sift(sender, [frame for _, frame in frames], seconds, tags)))
            chosen = [each for each in frames if id(each[1]) in passing]
            return [_selected(decoded, chosen)] if chosen else []
        found: list[Selected] = []
        now: list[tuple[int, Frame]] = []
        for seq, frame in frames:
            passed = sift(sender, (frame,), seconds, tags)
            if frame.kind == HEARTBEAT:
                now += [(seq, frame)] if passed else []
                continue
            place = (decoded.sender, frame.channel)
            held = self._held.get(place)
            if frame.kind == METHOD or held is None:
                held = self._held[place] = []
            if not passed:
                held.append((seq, frame, decoded))
                if len(held) > MAX_HELD_FRAMES:
                    del held[0]
                continue
            for held_seq, held_frame, before in held:
                if before is decoded:
                    now.append((held_seq, held_frame))
                else:
                    found.append(_selected(before, [(held_seq, held_frame)]))
            held.clear()
            now.append((seq, frame))
        if now:
            found.append(_selected(decoded, now))
        return found


def _selected(decoded: Amqp091DecodedFrames, frames: list[tuple[int, Frame]]) -> Selected:
    return Selected(msgspec.structs.replace(decoded, frames=[frame for _, frame in frames]), [seq for seq, _ in frames])


class _Amqp010Stream:
    """Filter of one 0-10 connection."""

    def __init__(self, chosen: Filter, client: Client) -> None:
        self._filter: AssemblyFilter[_Row] = AssemblyFilter(chosen, client)

    def sift(self, decoded: Amqp010DecodedFrames, seqs: Sequence[int]) -> list[Selected]:
        """Return the frames that the filter has selected, in the order in which it passes them."""
        rows = [_Row(decoded, place, seq) for place, seq in enumerate(seqs)]
        passed = self._filter.sift(Peer(decoded.sender), decoded.frames, rows, decoded.ts_ns / 1e9)
        found = []
        for _, group in groupby([row for _, row in passed], lambda row: id(row.decoded)):
            shown = list(group)
            places = [row.place for row in shown]
            found.append(Selected(shown[0].decoded.at(places), [row.seq for row in shown]))
        return found


class _Row(NamedTuple):
    """A frame's index in its packet, and its row number."""

    decoded: Amqp010DecodedFrames
    place: int
    seq: int
