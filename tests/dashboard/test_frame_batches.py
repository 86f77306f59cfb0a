"""What was decoded, in parts: the same frames, in order, and kept as bytes where they can be."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp091.frame import HEARTBEAT_FRAME, Frame
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import Decoded, DecodedFrames, StreamEnded
from amqproxy.dashboard.frame_batches import MAX_FRAMES, batches
from amqproxy.taps.amqp010.chunk import Amqp010Chunk
from amqproxy.taps.amqp091.chunk import Amqp091Chunk
from amqproxy.taps.note import Note
from tests.amqp010.samples import TRANSFER_FRAMES

COUNT = 3 * MAX_FRAMES + 6
WHERE = (1, 2, "a-b", "client")


def amqp010(*, is_chunk: bool, gap: int = 0) -> Amqp010DecodedFrames:
    raws = [TRANSFER_FRAMES[number % 3] for number in range(COUNT)]
    ids = [number // 3 for number in range(COUNT)]
    frames: list[Amqp010Frame] = []
    at = 0
    for raw in raws:
        frames.append(Amqp010Frame(raw, at))
        at += len(raw) + gap
    kept: Any = Amqp010Chunk(b"".join(raws), 0, ids) if is_chunk else frames
    return Amqp010DecodedFrames(*WHERE, kept, command_ids=ids)


def amqp091(*, is_chunk: bool) -> Amqp091DecodedFrames:
    data = HEARTBEAT_FRAME * COUNT
    return Amqp091DecodedFrames(*WHERE, Amqp091Chunk(data, 0) if is_chunk else [Frame(HEARTBEAT_FRAME)] * COUNT)


@pytest.mark.parametrize(
    "decoded",
    [
        amqp091(is_chunk=True),
        amqp091(is_chunk=False),
        amqp010(is_chunk=True),
        amqp010(is_chunk=False),
        amqp010(is_chunk=False, gap=5),
    ],
)
def test_all_frames_are_there_in_parts(decoded: DecodedFrames) -> None:
    parts: list[Any] = list(batches(decoded))
    assert len(parts) == 4
    assert all(0 < len(part.frames) <= MAX_FRAMES for part in parts)
    assert [frame.raw for part in parts for frame in part.frames] == [frame.raw for frame in decoded.frames]
    assert [frame.offset for part in parts for frame in part.frames] == [frame.offset for frame in decoded.frames]
    if isinstance(decoded, Amqp010DecodedFrames):
        assert [each for part in parts for each in part.command_ids] == list(decoded.command_ids)


def test_frames_of_0_10_are_kept_as_bytes_unless_some_are_missing() -> None:
    assert all(isinstance(each.frames, Amqp010Chunk) for each in batches(amqp010(is_chunk=False)))  # type: ignore[union-attr]
    whole = amqp010(is_chunk=False)
    cut = Amqp010Frame(TRANSFER_FRAMES[2], whole.frames[2].offset, lost=3)
    lossy = msgspec.structs.replace(whole, frames=[*whole.frames[:2], cut], command_ids=whole.command_ids[:3])
    (part,) = batches(lossy)
    assert part is not None
    assert [frame.lost for frame in part.frames] == [0, 0, 3]  # type: ignore[union-attr]


def test_all_else_is_as_it_is() -> None:
    end: Decoded = StreamEnded(1, 2, "a-b", "closed")
    assert list(batches(end)) == [end]


@pytest.mark.parametrize("decoded", [amqp010(is_chunk=True), amqp010(is_chunk=False, gap=5), amqp091(is_chunk=True)])
def test_only_the_last_part_ends_a_refused_message(decoded: DecodedFrames) -> None:
    refused = msgspec.structs.replace(decoded, note=Note(verdict="refused", leg="client"))
    assert refused.note.ends_content
    parts = list(batches(refused))
    assert [part.note.ends_content for part in parts if isinstance(part, DecodedFrames)] == [False, False, False, True]
