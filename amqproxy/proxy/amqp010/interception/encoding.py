"""The frames of controls and commands that do not go on as they came."""

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
"""The offset of frames that were made, and lie in nothing that was received."""


def frames_in(data: bytes) -> list[Frame]:
    """Whole frames that we have made."""
    frames, start = [], 0
    while start < len(data):
        end = start + int.from_bytes(data[start + 2 : start + 4])
        frames.append(Frame(data[start:end], UNPLACED))
        start = end
    return frames


def encoded(assembly: Assembly, frame_max: int) -> list[Frame]:
    """The frames of a whole assembly. What cannot be encoded raises whatever the encoding does."""
    return frames_in(assembly.encode(frame_max or FRAME_MIN_SIZE))


def altered(original: Assembly, changed: Assembly, received: Sequence[Frame], frame_max: int) -> list[Frame]:
    """The frames of a command some of which was changed, as far as they have come: a body is the one that came."""
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
    """The same in frames of at most `frame_max` bytes (0: the most there is)."""
    if not frame_max or all(frame.length() <= frame_max for frame in frames):
        return frames
    found: list[Frame] = []
    for frame in frames:
        found += [frame] if frame.length() <= frame_max else _split(frame, frame_max)
    return found


def _split(frame: Frame, frame_max: int) -> list[Frame]:
    """A frame in several: the first and the last of its segment only are what it is of it."""
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
    """What goes on, under its id, in place of a command that goes no further: a command that does nothing.

    Every broker knows execution.sync; Qpid's clients know no command but those that brokers send to them.
    """
    if sender is SERVER:
        return MessageAccept(SequenceSet(), sync=is_sync)
    return ExecutionSync(sync=is_sync)


def damaged(data: bytes, damage: tuple[tuple[int, int], ...]) -> bytes:
    """The bytes with bits of theirs flipped: each by its byte's place and a mask."""
    result = bytearray(data)
    for place, bits in damage:
        result[place % len(result)] ^= bits
    return bytes(result)
