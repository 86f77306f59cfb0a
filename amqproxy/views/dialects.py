"""The protocols whose frames views show."""

from __future__ import annotations

from typing import Any

from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import DecodedFrames
from amqproxy.peer import Peer
from amqproxy.taps.amqp010.chunk import Amqp010Chunk
from amqproxy.taps.frame_chunk import FrameChunk
from amqproxy.taps.note import Note
from amqproxy.views.amqp010.command_assembler import Amqp010CommandAssembler
from amqproxy.views.amqp091.command_assembler import Amqp091CommandAssembler
from amqproxy.views.command_assembler import CommandAssembler

ASSEMBLERS: dict[str, type[CommandAssembler]] = {
    each.protocol: each for each in (CommandAssembler, Amqp091CommandAssembler, Amqp010CommandAssembler)
}
"""Assemblers of the commands of each protocol; `""` until a connection's is known."""


def decoded_frames(
    ts_ns: int, stream: int, connection: str, sender: Peer, chunk: FrameChunk[Any], note: Note
) -> DecodedFrames:
    """Return the frames of a tap callback in the decoded form of captures."""
    if isinstance(chunk, Amqp010Chunk):
        return Amqp010DecodedFrames(ts_ns, stream, connection, sender, chunk, command_ids=chunk.command_ids, note=note)
    return Amqp091DecodedFrames(ts_ns, stream, connection, sender, chunk, note=note)
