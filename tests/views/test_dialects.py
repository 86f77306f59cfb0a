"""Frames that a tap was shown, as captures are decoded to."""

from __future__ import annotations

from amqproxy.peer import CLIENT
from amqproxy.taps.amqp010.chunk import Amqp010Chunk
from amqproxy.taps.amqp091.chunk import Amqp091Chunk
from amqproxy.taps.note import Note
from amqproxy.views.dialects import decoded_frames

NOTE = Note(leg="client")


def test_each_protocol_has_its_decoded_frames() -> None:
    for chunk, protocol in ((Amqp091Chunk(b"", 0, 0), "0-9-1"), (Amqp010Chunk(b"", 0, [3]), "0-10")):
        decoded = decoded_frames(5, 2, "a-b", CLIENT, chunk, NOTE)
        assert (decoded.protocol, decoded.frames, decoded.note, decoded.ts_ns) == (protocol, chunk, NOTE, 5)
        if isinstance(chunk, Amqp010Chunk):
            assert decoded.command_ids == [3]  # type: ignore[attr-defined]
