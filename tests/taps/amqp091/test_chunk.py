"""The frames of a chunk, made when they are asked for."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.frame import BODY, count_frames, encode_frame, every_frame
from amqproxy.amqp091.methods import BasicPublish
from amqproxy.taps.amqp091.chunk import Amqp091Chunk
from tests.taps.trace.traced import frames_of

DATA = b"".join(frame.raw for frame in frames_of(3, BasicPublish(), body=bytes(70_000)))


@pytest.mark.parametrize("times", [0, 1, 50])
def test_they_are_counted_and_made(times: int) -> None:
    data = DATA * times
    chunk = Amqp091Chunk(data, 7)
    assert len(chunk) == count_frames(data) == len(every_frame(data, 7)) == 72 * times
    assert b"".join(frame.raw for frame in chunk) == data
    assert [frame.offset for frame in chunk] == [frame.offset for frame in every_frame(data, 7)]
    assert list(chunk) == chunk[:]
    assert bool(chunk) is bool(times)


def test_they_are_made_once() -> None:
    chunk = Amqp091Chunk(DATA, 0)
    assert chunk[0] is next(iter(chunk))
    again = chunk.unmade()
    assert again[-1] is not chunk[-1]
    assert (again.data, len(again)) == (chunk.data, 72)


def test_what_is_kept_of_borrowed_bytes_is_a_copy() -> None:
    buffer = bytearray(DATA)
    chunk = Amqp091Chunk(memoryview(buffer), 0, 72)
    assert (chunk.size, len(chunk), bool(chunk)) == (len(DATA), 72, True)
    kept = chunk.unmade()
    made = list(chunk)
    buffer[:] = bytes(len(buffer))
    assert kept.data == DATA
    assert b"".join(frame.raw for frame in made) == DATA


@pytest.mark.parametrize("most", [1, 2, 3, 7, 100])
def test_parts_have_the_same_frames(most: int) -> None:
    data = b"".join(encode_frame(BODY, 1, bytes(size)) for size in range(7))
    whole = Amqp091Chunk(data, 100, zero_copy=True)
    parts = list(whole.parts(most))
    assert [len(part) for part in parts[:-1]] == [most] * (len(parts) - 1)
    assert sum(map(len, parts)) == 7
    assert b"".join(part.data for part in parts) == data
    found = [(frame.raw, frame.offset) for part in parts for frame in part]
    assert found == [(frame.raw, frame.offset) for frame in whole]
    assert list(Amqp091Chunk(b"", 0).parts(most)) == []
