"""Where frames begin, in bytes that were joined in their middle."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import BODY, HEARTBEAT_FRAME, encode_frame, encode_method
from amqproxy.amqp091.methods import BasicAck, BasicPublish, ChannelClose, ConnectionTune
from amqproxy.capture.amqp091.boundary import IMPOSSIBLE, MAX_WINDOW_BYTES, UNSURE, BoundarySearch, frame_at

ACK = encode_method(1, BasicAck(1))
PUBLISH = Command(1, BasicPublish(exchange="e", routing_key="k"), body=b"x" * 300).encode(200)
WHOLE = [ACK, HEARTBEAT_FRAME, encode_method(0, ConnectionTune(2047, 131072, 60)), encode_frame(BODY, 3, b"abc")]


@pytest.mark.parametrize("frame", WHOLE)
def test_a_whole_frame_has_an_end(frame: bytes) -> None:
    assert frame_at(frame, 0) == len(frame)
    assert frame_at(b"..." + frame + b"...", 3) == 3 + len(frame)
    assert frame_at(frame, len(frame)) == UNSURE
    for cut in range(len(frame)):
        assert frame_at(frame[:cut], 0) == UNSURE


@pytest.mark.parametrize(
    "data",
    [
        b"\x04\0\1\0\0\0\4\0\x14\0\x0a\xce",
        ACK[:-1] + b"\xcf",
        encode_frame(1, 1, b"\0\x3c\0"),
        encode_frame(1, 1, b"\0\x3c\0\xff"),
        encode_frame(1, 1, b"\0\x63\0\x0a"),
        encode_frame(1, 0, b"\0\x3c\0\x50" + bytes(9)),
        encode_frame(1, 1, b"\0\x0a\0\x1e" + bytes(8)),
        encode_frame(2, 1, b"\0\x3c\0\1" + bytes(10)),
        encode_frame(2, 1, b"\0\x3c\0\0" + bytes(9)),
        encode_frame(2, 0, b"\0\x3c\0\0" + bytes(10)),
        encode_frame(3, 0, b"x"),
        encode_frame(8, 1, b""),
        encode_frame(8, 0, b"x"),
        b"\x03\0\1\x01\0\0\0",
    ],
)
def test_what_cannot_be_a_frame(data: bytes) -> None:
    assert frame_at(data, 0) == IMPOSSIBLE


def found(data: bytes, *sizes: int) -> tuple[int, bytes] | None:
    """What a search finds, fed in pieces: how much it passed, and what it held."""
    search = BoundarySearch()
    at = 0
    for size in [*sizes, len(data)]:
        held = search.feed(data[at : at + size])
        at += size
        if held is not None:
            return search.passed, held
    return None


@pytest.mark.parametrize("rubbish", [b"", b"\xce", b"\x01\0\1\0\0\0\4", b"\x03\0\1\0\0\0\5ab", bytes(50), b"\x01" * 50])
def test_the_boundary_is_found_behind_rubbish(rubbish: bytes) -> None:
    for frame in WHOLE:
        assert found(rubbish + frame) == (len(rubbish), frame)
    assert found(rubbish + PUBLISH) == (len(rubbish), PUBLISH)


def test_the_middle_of_a_body_is_passed_over() -> None:
    middle = encode_frame(BODY, 1, b"x" * 500)[100:]
    assert found(middle + PUBLISH + ACK) == (len(middle), PUBLISH + ACK)


def test_a_body_alone_needs_something_behind_it() -> None:
    body = encode_frame(BODY, 1, b"x" * 20)
    assert found(body + b"\x99" * 9) is None
    assert found(body + ACK[:5]) is None
    assert found(b"." + body + ACK[:5], 29, 1) == (1, body), "it ended where a segment did"
    assert found(b"." + body + ACK) == (1, body + ACK)


def test_a_method_is_believed_unless_what_follows_contradicts() -> None:
    assert found(ACK + PUBLISH[:3]) == (0, ACK + PUBLISH[:3])
    assert found(ACK + b"\x99" + PUBLISH) == (len(ACK) + 1, PUBLISH)
    assert found(ACK + ACK + b"\x99") == (0, ACK + ACK + b"\x99")


@given(st.integers(0, 40), st.lists(st.integers(1, 60), max_size=20))
def test_how_the_bytes_come_does_not_matter_to_methods(cut: int, sizes: list[int]) -> None:
    data = encode_method(2, ChannelClose(404, "x" * 60, 0, 0))[cut + 1 :] + ACK + HEARTBEAT_FRAME + ACK
    answer = found(data, *sizes)
    assert answer is not None
    passed, held = answer
    assert data[passed:].startswith(held)
    assert passed == len(data) - 2 * len(ACK) - len(HEARTBEAT_FRAME)


def test_little_is_held_where_nothing_looks_like_a_frame() -> None:
    search = BoundarySearch()
    noise = random.Random(1).randbytes(1 << 20)
    for at in range(0, len(noise), 1000):
        assert search.feed(noise[at : at + 1000]) is None
    assert search.seen == len(noise)
    assert search.seen - search.passed < 100


def test_what_is_held_has_a_limit() -> None:
    search = BoundarySearch()
    hopeless = b"\x03\0\1\0\x0f\xff\xff" * 1000
    for _ in range(100):
        assert search.feed(hopeless) is None
        assert search.seen - search.passed <= MAX_WINDOW_BYTES
    assert search.feed(PUBLISH + ACK) == PUBLISH + ACK


@given(st.binary(max_size=300), st.lists(st.integers(1, 40), max_size=10))
def test_what_is_found_is_what_was_fed(data: bytes, sizes: list[int]) -> None:
    answer = found(data, *sizes)
    if answer is not None:
        passed, held = answer
        assert data[passed:].startswith(held)
        assert frame_at(held, 0) > 0
