"""What random clients and brokers do, compared with itself at another time and pace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from hypothesis import given, settings

from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.protocol_header import HEADER, NAME
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import Decoded, DecodedProtocolHeader, StreamEnded
from amqproxy.comparison.command_store import CommandStore
from amqproxy.comparison.comparison import ComparisonSummary, compared
from tests.example_count import example_count
from tests.taps.trace.programs import programs, simulated
from tests.taps.trace.simulation import Passed, Step


def decoded(passed: list[Passed], ends: str, pace: int) -> Iterator[Decoded]:
    yield DecodedProtocolHeader(0, 0, ends, "client", NAME, HEADER)
    ts_ns = 0
    for each in passed:
        ts_ns += pace
        yield Amqp091DecodedFrames(ts_ns, 0, ends, str(each.sender), [Frame(each.frame.raw)])
    yield StreamEnded(ts_ns, 0, ends, "the capture ends")


@settings(max_examples=example_count(40), deadline=None)
@given(programs)
def test_the_same_at_another_time_is_the_same(program: list[Step]) -> None:
    passed = simulated(program).passed
    with closing(CommandStore()) as one, closing(CommandStore()) as other:
        one.load(decoded(passed, "1.2.3.4:5-6.7.8.9:5672", 1000))
        other.load(decoded(passed, "1.2.3.4:6-6.7.8.9:5672", 7))
        found = list(compared(one, other))
    summary = found[-1]
    assert isinstance(summary, ComparisonSummary)
    assert summary.is_same, found
    assert summary.commands["a"] == summary.commands["b"] > 0
