"""What is left of a capture when only the commands for which a filter holds are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from amqproxy.amqp091.transitions import Peer
from amqproxy.capture.decoded import Decoded, DecodedFrames, SkippedBytes, StreamEnded
from amqproxy.rules.context import Client
from amqproxy.rules.engine.frame_filter import FrameFilter
from amqproxy.rules.matching.filters import Filter


def filtered(passed: Iterable[Decoded], by: Filter) -> Iterator[Decoded]:
    """The frames that the filter lets by, whatever could not be read as frames, and the ends of streams."""
    sieves: dict[int, FrameFilter] = {}
    for each in passed:
        if not isinstance(each, DecodedFrames):
            if isinstance(each, SkippedBytes | StreamEnded):
                yield each
            if isinstance(each, StreamEnded):
                sieves.pop(each.stream, None)
            continue
        sieve = sieves.get(each.stream)
        if sieve is None:
            sieve = sieves[each.stream] = FrameFilter(by, Client.named(each.stream, each.connection))
        frames = sieve.sift(Peer(each.sender), each.frames, each.ts_ns / 1e9, each.note.tags)
        if frames:
            yield msgspec.structs.replace(each, frames=frames)
