"""Chunks of frames of 0-10."""

import pytest

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.taps.amqp010.chunk import Amqp010Chunk

DATA = Assembly(1, MessageTransfer(), None, b"b" * 9000).encode(4096)
CHUNK = Amqp010Chunk(DATA, 100, [7, 7, 7, 7])


def test_frames_are_where_they_were() -> None:
    assert b"".join(frame.raw for frame in CHUNK) == DATA
    assert [frame.offset - 100 for frame in CHUNK] == [0, *(DATA.find(b"b") - 12 + 4096 * i for i in range(3))]
    assert CHUNK[0].name == "message.transfer"
    assert [frame.kind for frame in CHUNK[1:]] == [3, 3, 3]
    assert (len(CHUNK), CHUNK.size) == (4, len(DATA))


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5])
def test_parts_have_all_of_it(most: int) -> None:
    parts = list(CHUNK.parts(most))
    assert b"".join(part.data for part in parts) == DATA
    assert [frame.offset for part in parts for frame in part] == [frame.offset for frame in CHUNK]
    assert max(map(len, parts)) <= most


def test_frames_are_made_once_and_what_is_kept_has_none() -> None:
    assert CHUNK[0] is next(iter(CHUNK))
    kept = CHUNK.unmade()
    assert [frame.raw for frame in kept] == [frame.raw for frame in CHUNK]
    assert kept[0] is not CHUNK[0]
