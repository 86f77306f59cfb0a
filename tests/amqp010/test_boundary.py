"""Where a frame begins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp010 import boundary
from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.boundary import FrameSearch, frame_size_at
from amqproxy.amqp010.frame import BODY, COMMAND, MAX_FRAME, encode_frame
from tests.amqp010 import samples, strategies
from tests.amqp010.frame_finder import find_frame

BOUNDS = [sum(map(len, samples.TRANSFER_FRAMES[:number])) for number in range(4)]


@pytest.mark.parametrize("start", range(len(samples.TRANSFER)))
def test_the_next_frame_is_found(start: int) -> None:
    data = samples.TRANSFER + samples.COMPLETED
    assert find_frame(data, start) == (min(bound for bound in BOUNDS if bound >= start), start <= BOUNDS[2])


def test_it_is_not_sure_without_a_second_header() -> None:
    data = b"rubbish" + samples.HEARTBEAT
    assert find_frame(data) == (7, False)
    assert find_frame(data + samples.HEARTBEAT[:11]) == (7, False)
    assert find_frame(data + samples.HEARTBEAT[:12]) == (7, True)


def test_a_header_that_is_cut_may_be_one() -> None:
    data = b"rubbish" * 3 + samples.HEARTBEAT[:11]
    assert find_frame(data) == (21, False)
    assert find_frame(b"abc") == (0, False)
    assert find_frame(b"") == (0, False)


def test_what_only_looks_like_a_header_is_passed_over() -> None:
    inner = encode_frame(15, COMMAND, 1, b"inside")
    data = b"..." + encode_frame(6, BODY, 1, inner[:-1] + b"!" * 9) + samples.HEARTBEAT
    assert find_frame(data) == (3, True)
    assert find_frame(data, 4) == (len(data) - len(samples.HEARTBEAT), False)


def test_what_is_sure_comes_before_what_may_be() -> None:
    data = encode_frame(6, BODY, 1, bytes(99))[:20] + b"!" + samples.HEARTBEAT
    assert find_frame(data) == (0, False)
    assert find_frame(data + samples.HEARTBEAT) == (21, True)


def test_zeros_are_no_frames() -> None:
    assert find_frame(bytes(100) + samples.HEARTBEAT * 2) == (100, True)
    assert find_frame(bytes(100)) == (89, False)


@pytest.mark.parametrize(
    ("place", "byte"),
    [(0, 0x1F), (0, 7), (0, 0), (1, 4), (1, 3), (1, 1), (3, 11), (2, 0xFF), (4, 1), (5, 1), (5, 2), (8, 1), (11, 1)],
)
def test_what_is_no_header(place: int, byte: int) -> None:
    data = bytearray(samples.HEARTBEAT)
    assert frame_size_at(bytes(data), 0, 4096) == len(data)
    data[place] = byte
    assert frame_size_at(bytes(data), 0, 4096) == 0


@given(st.lists(strategies.assemblies(), min_size=2, max_size=4), st.data())
def test_no_frame_is_passed_over(assemblies: list[Assembly], draw: st.DataObject) -> None:
    data = b"".join([assembly.encode(200) for assembly in assemblies])
    frames = samples.split(data)
    bounds = [sum(map(len, frames[:number])) for number in range(len(frames) + 1)]
    start = draw.draw(st.integers(0, len(data)))
    place, is_sure = find_frame(data, start)
    assert start <= place <= max(len(data), start)
    if is_sure:
        assert place <= min(bound for bound in bounds if bound >= start)


PIECES = st.one_of(
    st.sampled_from([samples.HEARTBEAT, samples.HEARTBEAT[:11], samples.HEARTBEAT[4:], bytes(9), b"rubbish", b"\x0f"]),
    st.integers(12, 80).map(lambda size: b"\x0f\x01" + size.to_bytes(2) + b"\0\x01" + bytes(6)),
    st.binary(max_size=40),
)


@given(st.lists(PIECES, max_size=12))
def test_pieces_are_searched_as_the_whole_is(pieces: list[bytes]) -> None:
    search = FrameSearch(100)
    held, offset = b"", 100
    for piece in pieces:
        held += piece
        place, is_sure = find_frame(held)
        held, offset = held[place:], offset + place
        assert (search.feed(piece), search.held, search.offset) == (is_sure, held, offset)
        if is_sure:
            return


def test_what_may_be_a_frame_is_not_searched_again_with_each_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def count(data: bytes, place: int, frame_max: int = MAX_FRAME) -> int:
        nonlocal looks
        looks += 1
        return frame_size_at(data, place, frame_max)

    monkeypatch.setattr(boundary, "frame_size_at", count)
    search = FrameSearch(0)
    search.feed(b"\x0f\x01\xff\xff\0\x01" + bytes(6))
    for _ in range(1000):
        assert not search.feed(bytes(16))
    assert looks < 2 * 16_000
