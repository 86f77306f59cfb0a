"""The frames of commands that do not go on as they came."""

from __future__ import annotations

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import HEADER, METHOD, Frame, encode_frame, encode_method, every_frame
from amqproxy.amqp091.methods import BasicReject, Method
from amqproxy.proxy.amqp091.interception.tag_translation import Settled

UNPLACED = -(1 << 60)
"""The offset of frames that were made, and lie in nothing that was received."""


def method_frame(channel: int, method: Method) -> Frame:
    """The frame that holds `method`."""
    (frame,) = every_frame(encode_method(channel, method), UNPLACED)
    return frame


def check(frame: Frame) -> None:
    """`ProtocolError` when what a frame holds is malformed. Nothing that is decoded for this is kept."""
    if frame.kind == METHOD:
        _ = Frame(frame.raw, frame.offset).method
    elif frame.kind == HEADER:
        _ = Frame(frame.raw, frame.offset).header


def altered(command: Command) -> list[Frame]:
    """The frames of a command some of which were changed: the others are those that it came in."""
    frames = list(command.frames)
    if command.method is not frames[0].method:
        frames[0] = method_frame(command.channel, command.method)
    if len(frames) > 1 and command.header is not None and command.header is not frames[1].header:
        frames[1:2] = every_frame(encode_frame(HEADER, command.channel, command.header.encode()), UNPLACED)
    return frames


def damaged(data: bytes, damage: tuple[tuple[int, int], ...]) -> bytes:
    """The bytes with bits of theirs flipped: each by its byte's place and a mask."""
    result = bytearray(data)
    for place, bits in damage:
        result[place % len(result)] ^= bits
    return bytes(result)


def settling(channel: int, method: Method, settled: Settled) -> list[Frame]:
    """`method`, which settles, once for each of `settled`."""
    frames = []
    for tag, multiple in settled:
        if isinstance(method, BasicReject):
            frames.append(method_frame(channel, msgspec.structs.replace(method, delivery_tag=tag)))
        else:
            frames.append(method_frame(channel, msgspec.structs.replace(method, delivery_tag=tag, multiple=multiple)))
    return frames
