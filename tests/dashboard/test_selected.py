"""Some frames of a packet, with what belongs to each."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.frame import HEARTBEAT_FRAME, every_frame
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import DecodedFrames
from amqproxy.dashboard.selected import narrowed
from amqproxy.taps.amqp010.chunk import Amqp010Chunk
from tests.amqp010.samples import TRANSFER

CHUNK = Amqp010Chunk(TRANSFER * 2, 0, [4, 4, 4, 5, 5, 5])
PACKETS = [
    Amqp010DecodedFrames(1, 2, "a-b", "client", CHUNK, command_ids=CHUNK.command_ids),
    Amqp091DecodedFrames(1, 2, "a-b", "client", every_frame(HEARTBEAT_FRAME * 6, 0)),
]


@pytest.mark.parametrize("decoded", PACKETS)
def test_what_is_shown_keeps_its_row(decoded: DecodedFrames) -> None:
    found = narrowed(decoded, range(10, 16), lambda seq, frame: seq in (11, 14))
    assert found is not None
    assert found.seqs == [11, 14]
    assert isinstance(found.decoded, DecodedFrames)
    assert [frame.offset for frame in found.decoded.frames] == [decoded.frames[1].offset, decoded.frames[4].offset]
    if isinstance(found.decoded, Amqp010DecodedFrames):
        assert found.decoded.command_ids == [4, 5]


@pytest.mark.parametrize("decoded", PACKETS)
def test_all_or_nothing(decoded: DecodedFrames) -> None:
    whole = narrowed(decoded, range(6), lambda seq, frame: True)
    assert whole is not None
    assert whole.decoded is decoded
    assert narrowed(decoded, range(6), lambda seq, frame: False) is None


def test_places() -> None:
    found = PACKETS[0].at([5])
    assert isinstance(found, Amqp010DecodedFrames)
    assert (len(found.frames), found.command_ids) == (1, [5])
