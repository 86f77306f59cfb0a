"""Runs of messages of AMQP 0-10: read from frames, and condensed to one frame, of which a meter counts the same."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import ExecutionSync, MessageTransfer
from amqproxy.amqp010.controls import SessionCommandPoint, SessionCompleted
from amqproxy.amqp010.frame import BODY, encode_method
from amqproxy.amqp010.properties import DeliveryProperties, Header
from amqproxy.pump.pumps import are_available
from amqproxy.taps.metering.amqp010.message_run import RUN, SIZE, Amqp010MessageRun
from amqproxy.taps.metering.amqp010.meter import Amqp010Meter
from amqproxy.taps.metering.message_counts import Count, MessageCounts
from tests.proxy.amqp010_script import ids, transfer
from tests.pump.amqp010.rig import Amqp010Wire, amqp010_pump

FRAME_MAX = 4096


def messages(dice: Random) -> bytes:
    """Some on both channels, most of which are alike, and not all of them a run's."""
    found = bytearray()
    size, channel, mode = 100, 1, 0
    for _ in range(dice.randint(1, 40)):
        if dice.random() < 0.2:
            size = dice.choice((0, 1, 100, FRAME_MAX - 12, 5000))
        if dice.random() < 0.1:
            channel, mode = dice.choice((1, 2)), dice.choice((0, 1))
        if dice.random() < 0.1:
            found += encode_method(channel, dice.choice((ExecutionSync(), SessionCompleted(ids((0, 3))))))
        entries = (DeliveryProperties(routing_key="k", redelivered=dice.random() < 0.1 or None),)
        header = Header(entries) if dice.random() < 0.9 else None
        found += Assembly(channel, MessageTransfer("x", mode, 0), header, bytes(size) or None).encode(FRAME_MAX)
    return bytes(found)


def condensed(is_server: bool, data: bytes) -> list[bytes]:
    """Frames as a pump writes them down; where there is none, the same by an `Amqp010MessageRun`, plain then."""
    if are_available():
        return _noted(is_server, data)
    run: Any = Amqp010MessageRun()
    out, position, written = bytearray(len(data)), 0, 0
    while position < len(data):
        end = run.take(is_server, data, position, len(data))
        if end > position:
            written = run.condense(out, written)
        else:
            end = position + int.from_bytes(data[position + 2 : position + 4])
            part = data[position : position + 12] if data[position + 1] == BODY else data[position:end]
            out[written : written + len(part)] = part
            written += len(part)
        position = end
    return [bytes(out[:written])]


def _noted(is_server: bool, data: bytes) -> list[bytes]:
    found: list[bytes] = []
    wire = Amqp010Wire(amqp010_pump(), note=lambda is_server, data, now, is_cut: found.append(bytes(data)))
    wire.hand_over()
    peer = wire.server if is_server else wire.client
    while data:
        data = data[peer.send(data[:50_000]) :]
        wire.settle()
    wire.close()
    return found


def metered(is_server: bool, parts: list[bytes], *, is_cut: bool) -> tuple[Amqp010Meter, MessageCounts]:
    counts = MessageCounts()
    meter = Amqp010Meter(counts)
    for channel in (1, 2):
        for each in (False, True):
            meter.feed(each, encode_method(channel, SessionCommandPoint(0xFFFF_FFF0, 0)), 0.0)
    for part in parts:
        meter.feed(is_server, part, 1.0, is_cut)
    return meter, counts


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), is_server=st.booleans())
def test_what_is_condensed_counts_the_same(seed: int, is_server: bool) -> None:
    data = messages(Random(seed))
    meter, counts = metered(is_server, [data], is_cut=False)
    other, others = metered(is_server, condensed(is_server, data), is_cut=True)
    assert list(others.values) == list(counts.values)
    assert others.published_bytes.counts == counts.published_bytes.counts
    assert others.delivered_bytes.counts == counts.delivered_bytes.counts
    for channel in (1, 2):
        one, two = meter.session(channel), other.session(channel)
        assert (one is None) == (two is None)
        if one is not None and two is not None:
            assert (one.unconfirmed, one.unacked) == (two.unconfirmed, two.unacked)


@pytest.mark.parametrize("size", [0, 1, 100, FRAME_MAX - 12])
@pytest.mark.parametrize("is_server", [False, True])
def test_alike_messages_are_one_frame(is_server: bool, size: int) -> None:
    found = condensed(is_server, transfer(bytes(size)) * 10)
    assert {(each[0], len(each)) for each in found} == {(RUN, SIZE)}
    _, counts = metered(is_server, found, is_cut=True)
    assert counts.values[Count.DELIVERED if is_server else Count.PUBLISHED] == 10
    assert (counts.delivered_bytes if is_server else counts.published_bytes).total == 10 * size


def test_what_is_alike_differs_by_who_sends_it() -> None:
    data = transfer(b"x", accept_mode=0) + transfer(b"x", accept_mode=1)
    assert len(b"".join(condensed(False, data))) == SIZE, "a publish is confirmed in any mode"
    (found,) = condensed(True, data)
    assert len(found) == 2 * SIZE
    assert [found[SIZE - 1], found[-1]] == [0, 1]
    assert metered(True, [found], is_cut=True)[1].values[Count.AUTO_ACKED] == 1


def test_runs_of_two_sizes_and_channels_count_in_one_chunk() -> None:
    data = b"".join(transfer(bytes(size), channel=channel) * 3 for channel in (1, 2, 1) for size in (5, 6))
    meter, counts = metered(False, condensed(False, data), is_cut=True)
    assert counts.values[Count.PUBLISHED] == 18
    assert counts.published_bytes.total == 9 * 5 + 9 * 6
    assert [session.unconfirmed for number in (1, 2) if (session := meter.session(number))] == [12, 6]


@pytest.mark.parametrize("is_server", [False, True])
def test_what_is_condensed_is_never_longer(is_server: bool) -> None:
    for body in (b"", b"x"):
        for header in (Header(()), None):
            data = Assembly(1, MessageTransfer(None, None, None), header, body or None).encode(FRAME_MAX)
            assert len(b"".join(condensed(is_server, data))) <= len(data)


@pytest.mark.parametrize("size", range(1, SIZE))
def test_a_run_that_is_cut_off_is_none(size: int) -> None:
    (run,) = condensed(False, transfer(b"x"))
    meter = Amqp010Meter(MessageCounts())
    with pytest.raises(ValueError, match="not whole"):
        meter.feed(False, run[:size], 1.0, True)
