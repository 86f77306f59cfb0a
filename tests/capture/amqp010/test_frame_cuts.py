"""Where frames of 0-10 are cut into packets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp010.commands import ExecutionSync
from amqproxy.amqp010.frame import BODY, encode_frame, encode_method
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.capture.amqp010.frame_cuts import frame_bounds, segments

SYNC = encode_method(1, ExecutionSync())


def body(size: int) -> bytes:
    return encode_frame(7, BODY, 1, b"b" * size)


def test_what_fits_is_one_packet() -> None:
    assert segments(SYNC + body(100), 1000, -1) == [(0, len(SYNC) + 112, len(SYNC) + 112)]
    assert segments(b"", 1000, -1) == []


def test_packets_begin_with_frames() -> None:
    data = body(38) * 5
    assert segments(data, 120, -1) == [(0, 100, 100), (100, 200, 200), (200, 250, 250)]


def test_a_large_frame_is_in_several_packets() -> None:
    data = SYNC + body(238) + SYNC
    size = len(SYNC)
    assert segments(data, 100, -1)[0] == (0, size, size)
    cuts = [(size, size + 100, size + 100), (size + 100, size + 200, size + 200)]
    assert segments(data, 100, -1)[1:3] == cuts


@pytest.mark.parametrize("kept", [0, 1, 37])
def test_the_rest_of_a_body_is_not_kept(kept: int) -> None:
    data = SYNC + body(38) + SYNC
    size = len(SYNC)
    assert segments(data, 1000, kept) == [
        (0, size + 12 + kept, size + 50),
        (size + 50, 2 * size + 50, 2 * size + 50),
    ]
    assert len(segments(data, 1000, 38)) == 1


def test_what_is_no_frame_is_one_piece() -> None:
    assert list(frame_bounds(HEADER + SYNC + b"\xff" * 20)) == [
        (0, 8),
        (8, 8 + len(SYNC)),
        (8 + len(SYNC), 28 + len(SYNC)),
    ]
    assert list(frame_bounds(b"\x0f\x03")) == [(0, 2)]
    assert segments(HEADER, 100, 0) == [(0, 8, 8)]


@given(st.binary(max_size=600), st.integers(20, 100), st.integers(-1, 30))
def test_all_is_in_some_packet(data: bytes, most: int, kept: int) -> None:
    place = 0
    for start, end_kept, end in segments(data, most, kept):
        assert start == place
        assert start <= end_kept <= end <= start + most
        place = end
    assert place == len(data)
