"""What each of several processes has of a capture."""

import pytest

from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import Decoded
from amqproxy.capture.share import BLOCK_PACKETS, Share
from tests.capture import golden


def shown(passed: Decoded) -> object:
    frames = [frame.raw for frame in passed.frames] if isinstance(passed, Amqp091DecodedFrames) else []
    return type(passed), passed.ts_ns, passed.stream, frames


@pytest.mark.parametrize("by_packet", [False, True])
def test_all_shares_together_are_the_whole(by_packet: bool) -> None:
    captures = golden.captures()
    shares = [Share(number, 3, by_packet) for number in range(3)]
    parts = [[(share.position, shown(each)) for each in read_decoded(captures, share=share)] for share in shares]
    whole = [shown(each) for each in read_decoded(captures)]
    together = sorted((part for each in parts for part in each), key=lambda part: part[0])
    assert sorted(map(repr, (part for _, part in together))) == sorted(map(repr, whole))
    assert all(parts)
    if by_packet:
        assert [part for _, part in together] == whole
        for number, part in enumerate(parts):
            assert {position // BLOCK_PACKETS % 3 for position, _ in part} == {number}
