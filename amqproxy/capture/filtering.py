"""Reduction of a capture to the commands that match a filter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from amqproxy.capture.decoded import Decoded, DecodedFrames, SkippedBytes, StreamEnded
from amqproxy.peer import Peer
from amqproxy.rules.context import Client
from amqproxy.rules.dialects import DIALECTS, ConnectionFilter
from amqproxy.rules.matching.filters import Filter


def filtered(passed: Iterable[Decoded], by: Filter) -> Iterator[Decoded]:
    """Yield the frames that pass the filter, all unreadable bytes, and the ends of streams."""
    filters: dict[tuple[int, str], ConnectionFilter] = {}
    for each in passed:
        if isinstance(each, DecodedFrames):
            place = each.stream, each.protocol
            found = filters.get(place)
            if found is None:
                found = filters[place] = DIALECTS[each.protocol].frames(by, Client.named(each.stream, each.connection))
            frames, ids = sift(found, each)
            if frames:
                yield msgspec.structs.replace(each, frames=frames, command_ids=ids)
            continue
        if isinstance(each, SkippedBytes | StreamEnded):
            yield each
        if isinstance(each, StreamEnded):
            for protocol in DIALECTS:
                filters.pop((each.stream, protocol), None)


def sift(connection: ConnectionFilter, decoded: DecodedFrames) -> tuple[Sequence[Any], Sequence[int | None]]:
    """Return the frames that pass, from these and those held earlier, and the ids of their commands."""
    sender, seconds = Peer(decoded.sender), decoded.ts_ns / 1e9
    return connection.passing(sender, decoded.frames, decoded.command_ids, seconds, decoded.note.tags)
