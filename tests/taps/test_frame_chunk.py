"""Chunks of either protocol, behind one interface."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp010.controls import ConnectionTune
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp091.methods import BasicAck
from amqproxy.taps.amqp010.chunk import ID_COST, Amqp010Chunk
from amqproxy.taps.amqp091.chunk import Amqp091Chunk
from amqproxy.taps.frame_chunk import FrameChunk
from amqproxy.taps.note import NOTHING, Note
from tests.taps.trace.traced import frames_of

ACK = b"".join(frame.raw for frame in frames_of(1, BasicAck(1)))
TUNE = encode_method(0, ConnectionTune(channel_max=1))
CHUNKS = [Amqp091Chunk(3 * ACK, 8), Amqp010Chunk(3 * TUNE, 8, [None, None, None])]


@pytest.mark.parametrize("chunk", CHUNKS, ids=["0-9-1", "0-10"])
def test_frames_are_made_once_and_can_be_kept_unmade(chunk: FrameChunk[Any]) -> None:
    assert len(chunk) == 3
    assert chunk[0] is chunk[0]
    assert [frame.raw for frame in chunk[1:]] == [frame.raw for frame in list(chunk)[1:]]
    kept = chunk.unmade()
    assert kept[0] is not chunk[0]
    assert (kept.data, kept.size) == (chunk.data, len(chunk.data))
    assert kept.memory(100, 100) == kept.size + (3 * ID_COST if isinstance(kept, Amqp010Chunk) else 0)


@pytest.mark.parametrize("chunk", CHUNKS, ids=["0-9-1", "0-10"])
def test_parts_are_the_same_frames(chunk: FrameChunk[Any]) -> None:
    parts = list(chunk.parts(2))
    assert [len(part) for part in parts] == [2, 1]
    assert b"".join(part.data for part in parts) == chunk.data
    assert [frame.offset for part in parts for frame in part] == [frame.offset for frame in chunk]


@pytest.mark.parametrize("chunk", CHUNKS, ids=["0-9-1", "0-10"])
def test_each_frame_has_a_record(chunk: FrameChunk[Any]) -> None:
    records = list(chunk.records(ts_ns=1, stream=2, connection="c", sender="client"))
    assert [(record.protocol, record.stream) for record in records] == [(chunk.protocol, 2)] * 3


@pytest.mark.parametrize("chunk", CHUNKS, ids=["0-9-1", "0-10"])
def test_only_the_last_part_ends_a_content(chunk: FrameChunk[Any]) -> None:
    refused = Note(("no",), ("tag",), "refused", "client")
    notes = [note for _, note in chunk.noted_parts(1, refused)]
    assert [note.ends_content for note in notes] == [False, False, True]
    assert {note[:4] for note in notes} == {refused[:4]}
    assert [note for _, note in chunk.noted_parts(2, NOTHING)] == [NOTHING, NOTHING]
