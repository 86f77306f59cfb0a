"""Reduction of a capture to the commands that match a filter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from amqproxy.amqp091.transitions import Peer
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import Decoded, SkippedBytes, StreamEnded
from amqproxy.rules.amqp010.assembly_filter import AssemblyFilter
from amqproxy.rules.context import Client
from amqproxy.rules.engine.frame_filter import FrameFilter
from amqproxy.rules.matching.filters import Filter


def filtered(passed: Iterable[Decoded], by: Filter) -> Iterator[Decoded]:
    """Yield the frames that pass the filter, all unreadable bytes, and the ends of streams."""
    sieves: dict[int, FrameFilter] = {}
    assembly_filters: dict[int, AssemblyFilter[int | None]] = {}
    for each in passed:
        if isinstance(each, Amqp010DecodedFrames):
            assemblies = assembly_filters.get(each.stream)
            if assemblies is None:
                client = Client.named(each.stream, each.connection)
                assemblies = assembly_filters[each.stream] = AssemblyFilter(by, client)
            if found := assemblies.sift(Peer(each.sender), each.frames, each.command_ids, each.ts_ns / 1e9):
                chosen, command_ids = zip(*found, strict=True)
                yield msgspec.structs.replace(each, frames=chosen, command_ids=command_ids)
            continue
        if not isinstance(each, Amqp091DecodedFrames):
            if isinstance(each, SkippedBytes | StreamEnded):
                yield each
            if isinstance(each, StreamEnded):
                sieves.pop(each.stream, None)
                assembly_filters.pop(each.stream, None)
            continue
        sieve = sieves.get(each.stream)
        if sieve is None:
            sieve = sieves[each.stream] = FrameFilter(by, Client.named(each.stream, each.connection))
        frames = sieve.sift(Peer(each.sender), each.frames, each.ts_ns / 1e9, each.note.tags)
        if frames:
            yield msgspec.structs.replace(each, frames=frames)
