"""What sessions relay, as captures are decoded: the lines of it are those of records that are made at once."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.errors import FramingError
from amqproxy.amqp091.errors import FrameError
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.app.printing import Lines
from amqproxy.capture.decoded import Decoded
from amqproxy.capture.json_lines import JSONLines
from amqproxy.capture.text_lines import TextLines
from amqproxy.taps.amqp091.chunk import Amqp091Chunk
from amqproxy.taps.frame_tap import FrameTap
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.note import Note
from amqproxy.taps.record_queue import PrintedRecord, RecordQueue
from amqproxy.taps.tap import Tap
from amqproxy.taps.text import line
from amqproxy.views.decoded_tap import DecodedTap
from tests.taps.sessions import Session
from tests.transcripts.words import octets

DATA = octets("1: basic.publish, 1: header 5, 1: body 5, 65535: basic.ack, heartbeat")


class Kept:
    """What a tap has taken."""

    def __init__(self) -> None:
        self.passed: list[Decoded] = []
        self.costs: list[int] = []
        self.counts: list[int] = []
        self.lost = 0
        self.rings = 0
        self.tap = DecodedTap(self._take, self._lose, self._wake, clock=lambda: 1_700_000_000_123_456_789)

    def _take(self, passed: Decoded, cost: int, count: int) -> None:
        self.passed.append(passed)
        self.costs.append(cost)
        self.counts.append(count)

    def _lose(self, count: int) -> None:
        self.lost += count

    def _wake(self) -> None:
        self.rings += 1


def show(tap: Tap) -> None:
    tap.saw_protocol_header(Session(), HEADER)
    tap.saw_protocol_header(Session(), b"GET / HT", SERVER)
    tap.saw_frames(Session(), CLIENT, Amqp091Chunk(memoryview(DATA), 8, 5))
    tap.saw_frames(
        Session(), SERVER, [Frame(octets("2: basic.deliver"), 0)], Note(("slow",), ("late",), "held", "client")
    )
    tap.saw_violation(Session(), CLIENT, FrameError("too large", offset=9))
    tap.saw_violation(Session(), SERVER, FrameError("no place is known"))
    tap.saw_violation(Session(), SERVER, FramingError("of 0-10", offset=9))
    tap.saw_end(Session(), "over")


@pytest.mark.parametrize("is_json", [False, True])
def test_the_lines_are_those_of_records(is_json: bool) -> None:
    kept, queue = Kept(), RecordQueue[PrintedRecord](100, 1 << 20, Metrics(), lambda: None)
    show(kept.tap)
    show(FrameTap(queue, clock=lambda: 1_700_000_000_123_456_789))
    lines: Lines = JSONLines() if is_json else TextLines()
    counts = [lines.add(each) for each in kept.passed]
    expected = [each.to_json().decode() if is_json else line(each) for each in queue.take_records()]  # type: ignore[arg-type]
    assert lines.take().decode().splitlines() == expected
    assert counts == kept.counts == [1, 1, 5, 1, 1, 1, 1]
    assert kept.rings == 7


def test_what_is_kept_is_there_when_the_bytes_are_others() -> None:
    kept = Kept()
    data = bytearray(DATA)
    kept.tap.saw_frames(Session(), CLIENT, Amqp091Chunk(memoryview(data), 0))
    data[:] = bytes(len(data))
    lines = TextLines()
    assert lines.add(kept.passed[0]) == 5
    assert b"basic.publish" in lines.take()


def test_what_it_costs_grows_with_the_bytes() -> None:
    kept = Kept()
    kept.tap.saw_frames(Session(), CLIENT, Amqp091Chunk(DATA, 0))
    kept.tap.saw_frames(Session(), CLIENT, Amqp091Chunk(DATA * 10, 0))
    kept.tap.saw_frames(Session(), CLIENT, list(Amqp091Chunk(DATA * 10, 0)))
    assert kept.costs[1] - kept.costs[0] == 9 * len(DATA)
    assert kept.costs[2] > kept.costs[1], "frames that are objects take more"


def test_frames_that_were_not_shown_are_lost() -> None:
    kept = Kept()
    kept.tap.saw_gap(Session(), 7)
    assert (kept.lost, kept.passed, kept.rings) == (7, [], 1)
