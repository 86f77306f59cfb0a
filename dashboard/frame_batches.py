"""Decoded traffic split into small batches, with frames in chunks of raw bytes, as a ring keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import Decoded
from amqproxy.taps.amqp010.chunk import Amqp010Chunk
from amqproxy.taps.dialects import chunk_of

MAX_FRAMES = 256
"""Maximum number of frames in a batch."""


def batches(decoded: Decoded) -> Iterable[Decoded]:
    """Split decoded traffic into batches of at most `MAX_FRAMES` frames."""
    if isinstance(decoded, Amqp091DecodedFrames):
        return (decoded,) if len(decoded.frames) <= MAX_FRAMES else _amqp091_batches(decoded)
    return _amqp010_batches(decoded) if isinstance(decoded, Amqp010DecodedFrames) else (decoded,)


def _amqp091_batches(decoded: Amqp091DecodedFrames) -> Iterator[Decoded]:
    for part, note in chunk_of(decoded.frames).noted_parts(MAX_FRAMES, decoded.note):
        yield msgspec.structs.replace(decoded, frames=part, note=note)


def _amqp010_batches(decoded: Amqp010DecodedFrames) -> Iterator[Decoded]:
    chunk = _chunk(decoded.frames, decoded.command_ids)
    if chunk is not None:
        for part, note in chunk.noted_parts(MAX_FRAMES, decoded.note):
            yield msgspec.structs.replace(decoded, frames=part, command_ids=part.command_ids, note=note)
        return
    for begin in range(0, len(decoded.frames), MAX_FRAMES):
        end = begin + MAX_FRAMES
        yield msgspec.structs.replace(
            decoded,
            frames=decoded.frames[begin:end],
            command_ids=decoded.command_ids[begin:end],
            note=decoded.note.before_last if end < len(decoded.frames) else decoded.note,
        )


def _chunk(frames: Sequence[Amqp010Frame], command_ids: Sequence[int | None]) -> Amqp010Chunk | None:
    """Return the frames as one chunk; `None` if bytes of them, or between them, are missing."""
    if isinstance(frames, Amqp010Chunk):
        return frames
    at = first = frames[0].offset
    for frame in frames:
        if frame.lost or frame.offset != at:
            return None
        at += frame.length()
    return Amqp010Chunk(b"".join([frame.raw for frame in frames]), first, command_ids)
