"""Some frames of a packet, with what belongs to each."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.frame import HEARTBEAT_FRAME, every_frame
from amqproxy.capture.decoded import DecodedAmqp010Frames, DecodedFrames
from amqproxy.taps.amqp010_chunk import Amqp010Chunk
from dashboard.selected import AnyDecodedFrames, at_places, narrowed
from tests.amqp010.samples import TRANSFER

CHUNK = Amqp010Chunk(TRANSFER * 2, 0, [4, 4, 4, 5, 5, 5])
PACKETS = [
    DecodedAmqp010Frames(1, 2, "a-b", "client", CHUNK, CHUNK.command_ids),
    DecodedFrames(1, 2, "a-b", "client", every_frame(HEARTBEAT_FRAME * 6, 0)),
]


@pytest.mark.parametrize("decoded", PACKETS)
def test_what_is_shown_keeps_its_row(decoded: AnyDecodedFrames) -> None:
    found = narrowed(decoded, range(10, 16), lambda seq, frame: seq in (11, 14))
    assert found is not None
    assert found.seqs == [11, 14]
    assert isinstance(found.decoded, DecodedFrames | DecodedAmqp010Frames)
    assert [frame.offset for frame in found.decoded.frames] == [decoded.frames[1].offset, decoded.frames[4].offset]
    if isinstance(found.decoded, DecodedAmqp010Frames):
        assert found.decoded.command_ids == [4, 5]


@pytest.mark.parametrize("decoded", PACKETS)
def test_all_or_nothing(decoded: AnyDecodedFrames) -> None:
    whole = narrowed(decoded, range(6), lambda seq, frame: True)
    assert whole is not None
    assert whole.decoded is decoded
    assert narrowed(decoded, range(6), lambda seq, frame: False) is None


def test_places() -> None:
    found = at_places(PACKETS[0], [5])
    assert isinstance(found, DecodedAmqp010Frames)
    assert (len(found.frames), found.command_ids) == (1, [5])
