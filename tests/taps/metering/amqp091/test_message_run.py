"""Runs of messages: read from frames, and condensed to one frame, of which a meter counts the same."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.frame import BODY, encode_method
from amqproxy.amqp091.methods import BasicAck, BasicDeliver, BasicPublish, ChannelOpen, ConfirmSelect
from amqproxy.pump.pumps import are_available
from amqproxy.taps.metering.amqp091.message_meter import MessageMeter
from amqproxy.taps.metering.amqp091.message_run import RUN, MessageRun
from amqproxy.taps.metering.message_counts import Count, MessageCounts
from tests.example_count import example_count
from tests.pump.rig import journaled
from tests.taps.trace.traced import frames_of


def messages(dice: Random, is_server: bool) -> bytes:
    """Some on both channels, most of which are alike."""
    found = []
    tag, size, consumer, number = 1, 100, "tag", 1
    for _ in range(dice.randint(1, 40)):
        if dice.random() < 0.2:
            size = dice.choice((0, 1, 100, 5000))
        if dice.random() < 0.1:
            consumer, number = dice.choice(("tag", "", "another")), dice.choice((1, 2))
        if dice.random() < 0.1:
            found.append(encode_method(number, BasicAck(dice.randint(1, 40))))
        tag += dice.random() < 0.1
        method = BasicDeliver(consumer, tag, dice.random() < 0.2, "", "key") if is_server else BasicPublish()
        found += [frame.raw for frame in frames_of(number, method, body=dice.randbytes(size))]
        tag += 1
    return b"".join(found)


def condensed(is_server: bool, data: bytes) -> list[bytes]:
    """Frames as a pump writes them down; where there is none, the same by a `MessageRun`, which is plain then."""
    if are_available():
        return journaled(is_server, data)
    run, out, position = MessageRun(), bytearray(len(data)), 0
    written = 0
    while position < len(data):
        end = run.take(is_server, data, position, len(data))
        if end > position:
            written = run.condense(is_server, data, out, written)
        else:
            end = position + 8 + int.from_bytes(data[position + 3 : position + 7])
            part = data[position : position + 7] if data[position] == BODY else data[position:end]
            out[written : written + len(part)] = part
            written += len(part)
        position = end
    return [bytes(out[:written])]


def metered(is_server: bool, parts: list[bytes], *, is_cut: bool) -> tuple[MessageMeter, MessageCounts]:
    counts = MessageCounts()
    meter = MessageMeter(counts)
    for number in (1, 2):
        meter.feed(False, encode_method(number, ChannelOpen()) + encode_method(number, ConfirmSelect()), 0.0)
    for part in parts:
        meter.feed(is_server, part, 1.0, is_cut)
    assert not meter.is_lost
    return meter, counts


@settings(max_examples=example_count(100), deadline=None)
@given(seed=st.integers(0, 2**32), is_server=st.booleans())
def test_what_is_condensed_counts_the_same(seed: int, is_server: bool) -> None:
    data = messages(Random(seed), is_server)
    meter, counts = metered(is_server, [data], is_cut=False)
    other, others = metered(is_server, condensed(is_server, data), is_cut=True)
    assert list(others.values) == list(counts.values)
    assert others.published_bytes.counts == counts.published_bytes.counts
    assert others.delivered_bytes.counts == counts.delivered_bytes.counts
    assert other.frames == meter.frames


@pytest.mark.parametrize("size", [0, 1, 100])
def test_alike_messages_are_one_frame(size: int) -> None:
    publishes = b"".join(each.raw for each in frames_of(1, BasicPublish(), body=bytes(size)) * 100)
    deliveries = b"".join(
        each.raw for tag in range(100) for each in frames_of(2, BasicDeliver("tag", tag), body=bytes(size))
    )
    for is_server, data, expected in ((False, publishes, Count.PUBLISHED), (True, deliveries, Count.DELIVERED)):
        (found,) = condensed(is_server, data)
        assert found[0] == RUN
        assert len(found) == 8 + int.from_bytes(found[3:7])
        assert metered(is_server, [found], is_cut=True)[1].values[expected] == 100


@pytest.mark.parametrize("is_server", [False, True])
def test_what_is_condensed_is_never_longer(is_server: bool) -> None:
    for body in (b"", b"x"):
        method = BasicDeliver("t" * 255, 1) if is_server else BasicPublish()
        data = b"".join(frame.raw for frame in frames_of(1, method, body=body))
        assert len(b"".join(condensed(is_server, data))) < len(data)


@pytest.mark.parametrize("size", range(1, 24))
def test_a_run_that_is_cut_off_is_none(size: int) -> None:
    data = b"".join(frame.raw for frame in frames_of(1, BasicPublish(), body=b"x"))
    (run,) = condensed(False, data)
    assert len(run) == 24
    meter = MessageMeter(MessageCounts())
    meter.feed(False, run[:size], 1.0, True)
    assert meter.is_lost
