"""The protocols whose frames taps are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amqproxy.taps.amqp091.chunk import Amqp091Frames
from amqproxy.taps.frame_chunk import FrameChunk


def chunk_of(frames: Sequence[Any]) -> FrameChunk[Any]:
    """Return the frames as a chunk; frames that are not in one are of 0-9-1, whose commands are shown one by one."""
    return frames if isinstance(frames, FrameChunk) else Amqp091Frames(frames)
