"""Frames of 0-10, with holes and rubbish between them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import MessageTransfer, QueueDelete
from amqproxy.amqp010.controls import SessionAttached, SessionCommandPoint, SessionCompleted
from amqproxy.capture.amqp010.frame_resync import Amqp010Resync
from amqproxy.capture.unreadable_bytes import MISSING, UnreadableBytes

LARGE = Assembly(1, MessageTransfer(destination="x"), None, b"b" * 300)
SENT = [
    Assembly(1, SessionAttached(b"s")),
    Assembly(1, SessionCommandPoint(2**32 - 2, 0)),
    Assembly(1, QueueDelete(queue="q")),
    LARGE,
    Assembly(1, SessionCompleted()),
    Assembly(1, QueueDelete(queue="q")),
]


def frames_of(assemblies: Iterable[Assembly]) -> list[bytes]:
    raw, frames = b"".join(each.encode(100) for each in assemblies), []
    while raw:
        size = int.from_bytes(raw[2:4])
        frames.append(raw[:size])
        raw = raw[size:]
    return frames


FRAMES = frames_of(SENT)
DATA = b"".join(FRAMES)
STARTS = [sum(map(len, FRAMES[:number])) for number in range(len(FRAMES))]
IDS = [None, None, 2**32 - 2, *([2**32 - 1] * 5), None, 0]


class Taken:
    """Return raw frames, their command ids, and the unreadable bytes."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.ids: list[int | None] = []
        self.faults: list[tuple[str, int, int]] = []
        self.lost = 0

    def take(self, found: Iterable[object]) -> None:
        for each in found:
            if isinstance(each, UnreadableBytes):
                self.faults.append((each.reason, each.offset, each.lost))
                continue
            frames, ids = each  # type: ignore[misc]
            self.frames += [frame.raw for frame in frames]
            self.ids += ids
            self.lost += sum(frame.lost for frame in frames)


@given(st.lists(st.integers(1, 80)))
def test_how_bytes_are_cut_does_not_matter(sizes: list[int]) -> None:
    resync, taken, rest = Amqp010Resync(), Taken(), DATA
    for size in sizes:
        taken.take(resync.feed(1, rest[:size]))
        rest = rest[size:]
    taken.take(resync.feed(1, rest))
    taken.take(resync.end(1, "it ends"))
    assert (taken.frames, taken.ids, taken.faults) == (FRAMES, IDS, [])


@pytest.mark.parametrize("start", range(0, len(DATA), 7))
@pytest.mark.parametrize("size", [1, 5, 30, 150])
def test_frames_around_a_hole_are_found(start: int, size: int) -> None:
    resync, taken = Amqp010Resync(), Taken()
    end = min(start + size, len(DATA))
    taken.take(resync.feed(1, DATA[:start]))
    taken.take(resync.gap(2, end - start))
    taken.take(resync.feed(3, DATA[end:]))
    taken.take(resync.end(4, "it ends"))
    whole = [raw for at, raw in zip(STARTS, FRAMES, strict=True) if at + len(raw) <= start or at >= end]
    assert [raw for raw in taken.frames if raw in whole] == whole
    assert sum(map(len, taken.frames)) + sum(lost for _, _, lost in taken.faults) == len(DATA)
    assert all(reason == MISSING for reason, _, _ in taken.faults)


def test_whole_frames_that_are_missing_are_reported_before_the_next_ones() -> None:
    """Those of a recording: a state of the other direction, which comes next, is not taken for out of date."""
    resync, taken = Amqp010Resync(), Taken()
    taken.take(resync.feed(1, DATA[: STARTS[2]]))
    taken.take(resync.gap(2, 1_000, is_whole=True))
    assert taken.faults == [(MISSING, STARTS[2], 1_000)]
    taken.take(resync.feed(3, DATA[STARTS[2] :]))
    assert taken.frames == FRAMES
    assert taken.ids[2] is None


def test_the_inside_of_a_body_costs_only_that() -> None:
    body = STARTS[5]
    resync, taken = Amqp010Resync(), Taken()
    taken.take(resync.feed(1, DATA[: body + 20]))
    taken.take(resync.gap(1, 30))
    taken.take(resync.feed(1, DATA[body + 50 :]))
    assert len(taken.frames) == len(FRAMES)
    assert taken.lost == 80
    assert taken.faults == []
    assert taken.ids[-1] == 0, "no command is within a body"


@pytest.mark.parametrize(
    "rubbish", [b"\xff" * 5, b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 40, b"\x0f\x00\x00\x05" + bytes(8)]
)
def test_rubbish_is_passed_over(rubbish: bytes) -> None:
    resync, taken = Amqp010Resync(offset=8), Taken()
    taken.take(resync.feed(1, FRAMES[0] + rubbish + DATA))
    taken.take(resync.end(1, "it ends"))
    assert taken.frames == [FRAMES[0], *FRAMES]
    ((reason, offset, lost),) = taken.faults
    assert reason.startswith("framing-error: ")
    assert 8 + len(FRAMES[0]) <= offset <= 8 + len(FRAMES[0]) + len(rubbish)
    assert lost == len(rubbish)


def test_a_frame_out_of_order_is_reported_and_shown() -> None:
    resync, taken = Amqp010Resync(), Taken()
    taken.take(resync.feed(1, DATA + FRAMES[4] + FRAMES[0]))
    assert taken.frames == [*FRAMES, FRAMES[4], FRAMES[0]]
    ((reason, offset, lost),) = taken.faults
    assert (offset, lost) == (len(DATA), 0)
    assert "first of its track" in reason


def test_what_is_cut_off_is_reported() -> None:
    resync, taken = Amqp010Resync(), Taken()
    taken.take(resync.feed(1, DATA[:-3]))
    taken.take(resync.end(1, "the capture ends within a frame"))
    assert taken.faults == [("the capture ends within a frame", STARTS[-1], len(FRAMES[-1]) - 3)]


@given(st.binary(max_size=200), st.integers(0, 200))
def test_every_byte_is_accounted_for(data: bytes, place: int) -> None:
    mixed = DATA[:place] + data + DATA[place:]
    resync, taken = Amqp010Resync(), Taken()
    taken.take(resync.feed(1, mixed))
    taken.take(resync.end(1, "it ends"))
    assert sum(map(len, taken.frames)) + sum(lost for _, _, lost in taken.faults) == len(mixed)
