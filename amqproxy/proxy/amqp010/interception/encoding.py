"""Frames of controls and commands that are altered or made by the proxy."""

from __future__ import annotations

from collections.abc import Sequence

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import ExecutionSync, MessageAccept
from amqproxy.amqp010.frame import (
    BODY,
    FIRST_SEGMENT,
    FRAME_MIN_SIZE,
    HEADER,
    LAST_SEGMENT,
    Frame,
    encode_segment,
)
from amqproxy.amqp010.methods import Command
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.peer import SERVER, Peer

UNPLACED = -(1 << 60)
"""Offset of frames that were made by the proxy and are part of no received chunk."""


def frames_in(data: bytes) -> list[Frame]:
    """Return the frames in bytes that the proxy has encoded; all must be complete."""
    frames, start = [], 0
    while start < len(data):
        end = start + int.from_bytes(data[start + 2 : start + 4])
        frames.append(Frame(data[start:end], UNPLACED))
        start = end
    return frames


def encoded(assembly: Assembly, frame_max: int) -> list[Frame]:
    """Return the frames of a whole assembly; errors of the encoding propagate."""
    return frames_in(assembly.encode(frame_max or FRAME_MIN_SIZE))


def altered(original: Assembly, changed: Assembly, received: Sequence[Frame], frame_max: int) -> list[Frame]:
    """Return the frames of a changed command, as far as it was received; an unchanged body keeps its frames."""
    body = [frame for frame in received if frame.kind == BODY]
    if original.is_complete and changed.has_body and (not body or changed.body != original.body):
        return encoded(changed, frame_max)
    has_more = bool(body) or not original.is_complete
    header = changed.header
    frame_max = frame_max or FRAME_MIN_SIZE
    flags = FIRST_SEGMENT | (0 if header is not None or has_more else LAST_SEGMENT)
    data = encode_segment(flags, int(changed.method.segment), changed.channel, changed.method.encode(), frame_max)
    if header is not None:
        flags = 0 if has_more else LAST_SEGMENT
        data += encode_segment(flags, HEADER, changed.channel, header.encode(), frame_max)
    return frames_in(data) + body


def fitting(frames: Sequence[Frame], frame_max: int) -> Sequence[Frame]:
    """Return the frames, split to at most `frame_max` bytes each (0: the largest possible)."""
    if not frame_max or all(frame.length() <= frame_max for frame in frames):
        return frames
    found: list[Frame] = []
    for frame in frames:
        found += [frame] if frame.length() <= frame_max else _split(frame, frame_max)
    return found


def _split(frame: Frame, frame_max: int) -> list[Frame]:
    """Split a frame; only the first and the last piece keep its first-frame and last-frame flags."""
    made = frames_in(encode_segment(frame.flags & 12, frame.kind, frame.channel, frame.payload, frame_max))
    first = 0 if frame.is_first_frame else 2
    last = 0 if frame.is_last_frame else 1
    pieces = []
    for number, piece in enumerate(made):
        raw = bytearray(piece.raw)
        if number == 0:
            raw[0] &= ~first
        if number == len(made) - 1:
            raw[0] &= ~last
        pieces.append(Frame(bytes(raw), UNPLACED))
    return pieces


def placeholder(sender: Peer, *, is_sync: bool) -> Command:
    """Return a command without effect, forwarded under the id of a command that is dropped.

    Every broker supports execution.sync; Qpid's clients support only commands that brokers send to them.
    """
    if sender is SERVER:
        return MessageAccept(SequenceSet(), sync=is_sync)
    return ExecutionSync(sync=is_sync)
