"""What is configured comes to the impairment that is meant, for each of the peers that are meant."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.rules.faults.impairments import Bandwidth, Cutoff, HalfClose, Latency, Reset, Silence, Slicing, SlowClose
from amqproxy.rules.faults.stream_faults import (
    BandwidthFault,
    HalfCloseFault,
    LatencyFault,
    LimitDataFault,
    ResetFault,
    SlicingFault,
    SlowCloseFault,
    StreamFault,
    TimeoutFault,
)
from amqproxy.rules.verdict import Impairment


@pytest.mark.parametrize(
    ("fault", "impairment"),
    [
        (LatencyFault(delay=1, jitter=0.5), Latency(CLIENT, 3, 1, 0.5)),
        (BandwidthFault(rate="1KiB"), Bandwidth(CLIENT, 3, 1024)),
        (SlicingFault(size=5, variation=1, pause=2), Slicing(CLIENT, 3, 5, 1, 2)),
        (TimeoutFault(close_after=4), Silence(CLIENT, 3, 4)),
        (ResetFault(after=4), Reset(CLIENT, 3, 4)),
        (HalfCloseFault(after=4), HalfClose(CLIENT, 3, 4)),
        (SlowCloseFault(delay=4), SlowClose(CLIENT, 3, 4)),
        (LimitDataFault(octets=4), Cutoff(CLIENT, 3, 4)),
    ],
)
def test_each_kind(fault: StreamFault, impairment: Impairment) -> None:
    assert fault.impairment(CLIENT, 3) == impairment


def test_the_direction_of_a_fault() -> None:
    assert ResetFault(to="server").impairments(None, "x") == (Reset(SERVER, by="x"),)
    assert ResetFault(to="client").impairments(None, "x") == (Reset(CLIENT, by="x"),)
    assert ResetFault().impairments(5, "x") == (Reset(CLIENT, 5, by="x"), Reset(SERVER, 5, by="x"))
