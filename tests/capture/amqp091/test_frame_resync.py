"""Frames, in bytes of which some are missing or no frames."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT_FRAME, OVERHEAD, encode_frame, encode_method
from amqproxy.amqp091.methods import BasicAck, BasicPublish
from amqproxy.amqp091.tally import Tally
from amqproxy.capture.amqp091.frame_resync import Found, FrameResync
from amqproxy.capture.unreadable_bytes import JOINED, MISSING, UnreadableBytes

ACK = encode_method(1, BasicAck(1))
NACK = encode_method(1, BasicAck(2, multiple=True))
PUBLISH = Command(1, BasicPublish(exchange="e", routing_key="k"), body=b"x" * 300).encode(200)
LARGE = encode_frame(BODY, 1, b"y" * 1000)

Step = bytes | int
"""Bytes, or how many are missing."""


def run(*steps: Step, frame_max: int = 0, is_aligned: bool = True, reason: str = "ended") -> list[object]:
    """What is found: the bytes of frames, bodies as (offset, what of them is known, lost), and faults as (offset, lost,
    reason or code).
    """
    finder = FrameResync(Tally(), frame_max=frame_max, fault=None if is_aligned else UnreadableBytes(0, JOINED, 0))
    found: list[Found] = []
    for ts_ns, step in enumerate(steps):
        if isinstance(step, int):
            found += finder.gap(ts_ns, step)
        else:
            found += finder.feed(ts_ns, step)
    found += finder.end(99, reason)
    brief: list[object] = []
    for each in found:
        if isinstance(each, UnreadableBytes):
            brief.append((each.offset, each.lost, each.code or each.reason))
        else:
            brief += [(frame.offset, frame.known_payload, frame.lost) if frame.lost else frame.raw for frame in each]
            assert all(len(frame.payload) == frame.size for frame in each)
    return brief


def test_frames_come_out_as_they_went_in() -> None:
    assert run(ACK + NACK) == [ACK, NACK]
    assert run(ACK + NACK[:5], NACK[5:], HEARTBEAT_FRAME) == [ACK, NACK, HEARTBEAT_FRAME]


def test_the_end_within_a_frame_is_reported() -> None:
    assert run(ACK + LARGE[:100], LARGE[100:500], reason="cut") == [ACK, (len(ACK), 500, "cut")]


# ---------------------------------------------------------------------------------------------------------- gaps


def test_a_gap_between_frames() -> None:
    assert run(ACK, 21, NACK) == [ACK, (len(ACK), 21, MISSING), NACK]


def test_a_gap_within_a_frame_of_known_size_ends_with_the_frame() -> None:
    """What follows is a body that alone would not be believed."""
    header = encode_frame(HEADER, 1, b"\0\x3c\0\0" + bytes(1000))
    body = encode_frame(BODY, 1, b"z" * 10)
    for cut, lost in ((7, 1000), (100, 900), (100, 912)):
        rest = header[cut + lost :]
        assert run(header[:cut], lost, rest + body, ACK) == [(0, len(header), MISSING), body, ACK]
        pieces = [rest[:-3], rest[-3:]] if rest else []
        assert run(header[:cut], lost, *pieces, body + ACK)[0] == (0, len(header), MISSING)


@pytest.mark.parametrize(("cut", "known"), [(7, 0), (8, 1), (100, 93), (1006, 999)])
def test_a_body_of_which_the_head_is_there_is_a_frame_with_bytes_lost(cut: int, known: int) -> None:
    """Nothing else is: the next frame is taken as it is, and none is waited for."""
    body = encode_frame(BODY, 1, b"z" * 10)
    expected = (len(ACK), b"y" * known, 1000 - known)
    for rest in (0, 1, 2, 50):  # bytes of it that are there again
        lost = len(LARGE) - cut - rest
        if lost > 0:
            assert run(ACK + LARGE[:cut], lost, LARGE[len(LARGE) - rest :] + body, ACK) == [ACK, expected, body, ACK]
            assert run(ACK, LARGE[:cut], lost, LARGE[len(LARGE) - rest :]) == [ACK, expected]
    assert run(LARGE[:1007], 1, ACK) == [LARGE, ACK]  # nothing but its end is missing, which is always the same


def test_several_gaps_within_a_body() -> None:
    """What comes behind the first is not shown: nobody would know where it belongs."""
    assert run(LARGE[:100], 100, LARGE[200:300], 100, LARGE[400:] + ACK) == [(0, b"y" * 93, 907), ACK]
    found = run(LARGE[:100], 100, LARGE[200:300], 708 + len(ACK), NACK)
    assert found == [(0, b"y" * 93, 907), (len(LARGE), len(ACK), MISSING), NACK]


def test_a_gap_that_ends_in_another_frame() -> None:
    assert run(ACK + LARGE[:100], 950, PUBLISH[42:] + ACK)[:2] == [ACK, (len(ACK), b"y" * 93, 907)]
    found = run(LARGE[:100], 908 + 5, ACK[5:] + NACK)
    assert found == [(0, b"y" * 93, 907), (len(LARGE), len(ACK), MISSING), NACK]


def test_a_gap_in_a_frame_of_unknown_size() -> None:
    assert run(LARGE[:3], 1000, LARGE[1003:] + ACK) == [(0, len(LARGE), MISSING), ACK]


def test_a_gap_while_searching_drops_what_was_searched() -> None:
    assert run(ACK, 5, b"rubbish", 5, b"more", NACK) == [ACK, (len(ACK), 21, MISSING), NACK]


def test_a_skip_that_does_not_end_as_a_frame_is_searched() -> None:
    """Bytes were lost twice, and the capture knows of one time only."""
    broken = b"y" * 50 + ACK + NACK
    assert run(LARGE[:100], 858, broken) == [(0, 1008, MISSING), ACK, NACK]


def test_a_gap_without_frames_behind_it_is_reported_at_the_end() -> None:
    assert run(ACK + LARGE[:50], 100, LARGE[150:200]) == [ACK, (len(ACK), 200, MISSING)]
    assert run(ACK, 100) == [ACK, (len(ACK), 100, MISSING)]


# --------------------------------------------------------------------------------------------------------- rubbish


@pytest.mark.parametrize(
    ("rubbish", "code", "at"),
    [
        (b"\x07\0\0\0\0\0\2zz\0", 501, 0),
        (ACK[:-1] + b"\0", 501, len(ACK) - 1),
        (encode_frame(1, 1, b"\0\x3c\0\xff"), 503, 7),
        (b"GET / HTTP/1.1\r\n\r\n", 501, 3),
    ],
)
def test_what_is_no_frame_is_reported_and_skipped(rubbish: bytes, code: int, at: int) -> None:
    assert run(ACK + rubbish + NACK + ACK) == [ACK, (len(ACK) + at, len(rubbish), code), NACK, ACK]
    pieces = [rubbish[place : place + 1] for place in range(len(rubbish))]
    assert run(ACK, *pieces, NACK + ACK) == [ACK, (len(ACK) + at, len(rubbish), code), NACK, ACK]
    assert run(ACK + rubbish) == [ACK, (len(ACK) + at, len(rubbish), code)]


def test_a_frame_over_the_limit_is_refused_and_passed_over() -> None:
    found = run(ACK + LARGE + NACK, frame_max=500)
    assert found == [ACK, (len(ACK) + 3, len(LARGE), 501), NACK]


def test_the_limit_may_come_later() -> None:
    finder = FrameResync(Tally())
    assert finder.feed(0, LARGE)
    finder.set_frame_max(500)
    assert finder.feed(0, LARGE) == []
    assert finder.skipped
    assert finder.feed(0, ACK + ACK)
    assert not finder.skipped


def test_much_rubbish_between_frames_is_no_trouble() -> None:
    data = (ACK + ACK + b"\x99") * 3000
    found = run(data)
    assert len(found) == 9000
    assert sum(each == ACK for each in found) == 6000


# ------------------------------------------------------------------------------------------------- joined midway


def test_joined_midway() -> None:
    assert run(ACK + NACK, is_aligned=False) == [ACK, NACK]
    assert run(LARGE[50:] + ACK, is_aligned=False) == [(0, len(LARGE) - 50, JOINED), ACK]
    assert run(b"nothing", b"of", b"AMQP", is_aligned=False) == [(0, 13, JOINED)]
    assert run(is_aligned=False) == []


# ------------------------------------------------------------------------------------------------------ properties

frames = st.sampled_from([ACK, NACK, HEARTBEAT_FRAME, PUBLISH, LARGE])


def chunks(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces, at = [], 0
    for size in sizes:
        pieces.append(data[at : at + size])
        at += size
    return [piece for piece in [*pieces, data[at:]] if piece]


@given(st.lists(frames, max_size=6), st.lists(st.integers(1, 700), max_size=12))
def test_how_the_bytes_come_does_not_matter(whole: list[bytes], sizes: list[int]) -> None:
    data = b"".join(whole)
    assert b"".join(run(*chunks(data, sizes))) == data  # type: ignore[arg-type]


@given(
    st.lists(frames, min_size=1, max_size=5),
    st.integers(0, 3000),
    st.integers(1, 1500),
    st.lists(st.integers(1, 700), max_size=8),
)
def test_every_byte_is_in_a_frame_or_counted_as_lost(
    whole: list[bytes], start: int, lost: int, sizes: list[int]
) -> None:
    data = b"".join(whole) + ACK + ACK
    start %= len(data)
    stop = min(start + lost, len(data) - 2 * len(ACK))
    steps: list[Step] = [*chunks(data[:start], sizes)]
    if stop > start:
        steps.append(stop - start)
    steps += chunks(data[max(start, stop) :], sizes)
    at = 0
    for each in run(*steps):
        if isinstance(each, tuple):
            assert each[0] == at
            at += each[1] if isinstance(each[1], int) else OVERHEAD + len(each[1]) + each[2]
        else:
            assert data[at:].startswith(each)  # type: ignore[arg-type]
            at += len(each)  # type: ignore[arg-type]
    assert at == len(data)
    assert run(*steps)[-2:] == [ACK, ACK]


@given(st.lists(st.one_of(st.binary(min_size=1, max_size=60), st.integers(1, 50), frames), max_size=12), st.booleans())
def test_nothing_at_all_is_an_error(steps: list[Step], is_aligned: bool) -> None:
    total = sum(step if isinstance(step, int) else len(step) for step in steps)
    found = run(*steps, is_aligned=is_aligned)
    assert sum(each[1] if isinstance(each, tuple) else len(each) for each in found) == total  # type: ignore[arg-type, misc]
