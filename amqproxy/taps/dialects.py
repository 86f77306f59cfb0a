"""Frame chunks, as taps observe them, from the frames of any protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amqproxy.taps.amqp091.chunk import Amqp091Frames
from amqproxy.taps.frame_chunk import FrameChunk

_LISTS = frozenset({list, tuple})


def chunk_of(frames: Sequence[Any]) -> FrameChunk[Any]:
    """Return the frames as a chunk; frames that are not in one are of 0-9-1, whose commands are shown one by one."""
    # `isinstance` of an abstract class would take longer than all else that a recorder does with a chunk.
    return Amqp091Frames(frames) if type(frames) in _LISTS else frames  # type: ignore[return-value]
