"""Frames of commands that are altered or made by the proxy."""

from __future__ import annotations

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import HEADER, METHOD, Frame, encode_frame, encode_method, every_frame
from amqproxy.amqp091.methods import BasicReject, Method
from amqproxy.proxy.amqp091.interception.tag_translation import Settled

UNPLACED = -(1 << 60)
"""Offset of frames that were made by the proxy and are part of no received chunk."""


def method_frame(channel: int, method: Method) -> Frame:
    """Return a frame that holds `method`."""
    (frame,) = every_frame(encode_method(channel, method), UNPLACED)
    return frame


def check(frame: Frame) -> None:
    """Raise `ProtocolError` if the frame's content is malformed. The decoded values are not kept."""
    if frame.kind == METHOD:
        _ = Frame(frame.raw, frame.offset).method
    elif frame.kind == HEADER:
        _ = Frame(frame.raw, frame.offset).header


def altered(command: Command) -> list[Frame]:
    """Return the frames of a command, re-encoding the changed ones and reusing the received others."""
    frames = list(command.frames)
    if command.method is not frames[0].method:
        frames[0] = method_frame(command.channel, command.method)
    if len(frames) > 1 and command.header is not None and command.header is not frames[1].header:
        frames[1:2] = every_frame(encode_frame(HEADER, command.channel, command.header.encode()), UNPLACED)
    return frames


def settling(channel: int, method: Method, settled: Settled) -> list[Frame]:
    """Return a copy of the settling `method` for each entry of `settled`."""
    frames = []
    for tag, multiple in settled:
        if isinstance(method, BasicReject):
            frames.append(method_frame(channel, msgspec.structs.replace(method, delivery_tag=tag)))
        else:
            frames.append(method_frame(channel, msgspec.structs.replace(method, delivery_tag=tag, multiple=multiple)))
    return frames
