"""Runs of acknowledgements: read from frames, and condensed to one frame, of which a meter counts the same."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    BasicRecover,
    BasicReject,
    ChannelOpen,
    ConfirmSelect,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from amqproxy.pump.pumps import are_available
from amqproxy.taps.metering.amqp091.acknowledgement_run import ACKNOWLEDGEMENTS, SIZE, AcknowledgementRun
from amqproxy.taps.metering.amqp091.message_meter import MessageMeter
from amqproxy.taps.metering.message_counts import Count, MessageCounts
from tests.example_count import example_count
from tests.pump.rig import journaled
from tests.taps.trace.traced import frames_of

MESSAGES = 200


def written(is_server: bool, data: bytes) -> list[bytes]:
    """Frames as a pump writes them down; where there is none, the same by an `AcknowledgementRun`, plain then."""
    if are_available():
        return journaled(is_server, data) if data else []
    run, out, position, at = AcknowledgementRun(), bytearray(len(data)), 0, 0
    while position < len(data):
        end = run.take(is_server, data, position, len(data))
        if end > position:
            at = run.condense(out, at)
        else:
            end = position + 8 + int.from_bytes(data[position + 3 : position + 7])
            out[at : at + end - position] = data[position:end]
            at += end - position
        position = end
    return [bytes(out[:at])]


def acknowledgements(dice: Random, is_server: bool) -> list[bytes]:
    """Frames of both channels, most of which follow one another; some are for tags that nobody has, or have had.

    Methods that no pump passes are parts of their own, with an even place.
    """
    parts = [b""]
    found = []
    number, tag, kind, bits = 1, 1, 0, False
    for _ in range(dice.randint(1, 150)):
        if dice.random() < 0.1:
            number, kind, bits = dice.choice((1, 2)), dice.choice((0, 0, 1, 2)), dice.random() < 0.3
        if dice.random() < 0.1:
            tag = dice.choice((0, 1, tag // 2, dice.randint(1, MESSAGES + 20), 2**64 - 2))
        if not is_server and dice.random() < 0.02:
            parts += [b"".join(found), encode_method(number, dice.choice((TxCommit(), BasicRecover(True))))]
            found = []
        if kind == 0:
            found.append(encode_method(number, BasicAck(tag, multiple=bits and dice.random() < 0.7)))
        elif kind == 1 or is_server:
            found.append(encode_method(number, BasicNack(tag, multiple=bits and tag % 3 == 0, requeue=tag % 7 > 1)))
        else:
            found.append(encode_method(number, BasicReject(tag, requeue=bits)))
        tag = (tag + 1) % 2**64
    return [*parts, b"".join(found)]


def metered(
    is_server: bool, parts: list[bytes], *, is_cut: bool, is_in_transaction: bool = False
) -> tuple[MessageMeter, MessageCounts]:
    """A meter of two channels with open publishes and deliveries, which has taken the parts."""
    counts = MessageCounts()
    meter = MessageMeter(counts)
    for number in (1, 2):
        meter.feed(False, encode_method(number, ChannelOpen()), 0.0)
        selects = TxSelect() if is_in_transaction and number == 1 else ConfirmSelect()
        meter.feed(False, encode_method(number, selects), 0.0)
        if isinstance(selects, TxSelect):
            meter.feed(True, encode_method(number, TxSelectOk()), 0.0)
        for tag in range(1, MESSAGES + 1):
            now = tag // 10 / 1000
            published = b"".join(each.raw for each in frames_of(number, BasicPublish(), body=b"x"))
            delivered = b"".join(each.raw for each in frames_of(number, BasicDeliver("tag", tag), body=b"x"))
            meter.feed(False, published, now)
            meter.feed(True, delivered, now)
    for part in parts:
        meter.feed(is_server, part, 1.0, is_cut)
    meter.feed(True, encode_method(1, TxCommitOk()), 1.5)
    assert not meter.is_lost
    return meter, counts


def counted(meter: MessageMeter) -> tuple[object, ...]:
    channels = [meter.channel(number) for number in (1, 2)]
    return meter.frames, *[(each.unacked, each.unconfirmed) for each in channels if each is not None]


@settings(max_examples=example_count(100), deadline=None)
@given(seed=st.integers(0, 2**32), is_server=st.booleans(), is_in_transaction=st.booleans())
def test_a_run_counts_as_its_frames_do(seed: int, is_server: bool, is_in_transaction: bool) -> None:
    given_parts = acknowledgements(Random(seed), is_server)
    cut = []
    for place, part in enumerate(given_parts):
        cut += written(is_server, part) if place % 2 else [part]
    data = b"".join(given_parts)
    one_by_one, at = [], 0
    while at < len(data):
        end = at + 8 + int.from_bytes(data[at + 3 : at + 7])
        one_by_one.append(data[at:end])
        at = end
    expected, expected_counts = _outcome(is_server, one_by_one, False, is_in_transaction)
    for parts, is_cut in (([data], False), (cut, True)):
        found, counts = _outcome(is_server, parts, is_cut, is_in_transaction)
        assert found == expected
        assert list(counts.values) == list(expected_counts.values)
        assert counts.ack_seconds.counts == expected_counts.ack_seconds.counts
        assert counts.confirm_seconds.counts == expected_counts.confirm_seconds.counts
        assert counts.ack_seconds.total == pytest.approx(expected_counts.ack_seconds.total)


def _outcome(
    is_server: bool, parts: list[bytes], is_cut: bool, is_in_transaction: bool
) -> tuple[tuple[object, ...], MessageCounts]:
    meter, counts = metered(is_server, parts, is_cut=is_cut, is_in_transaction=is_in_transaction)
    return counted(meter), counts


@pytest.mark.parametrize("is_server", [False, True])
def test_acknowledgements_that_follow_one_another_are_one_frame(is_server: bool) -> None:
    data = b"".join(encode_method(1, BasicAck(tag)) for tag in range(1, 101))
    (found,) = written(is_server, data)
    assert (found[0], len(found)) == (ACKNOWLEDGEMENTS, SIZE)
    assert len(found) == 8 + int.from_bytes(found[3:7])
    _, counts = metered(is_server, [found], is_cut=True)
    assert counts.values[Count.CONFIRMED if is_server else Count.ACKED] == 100


def test_one_acknowledgement_is_no_run() -> None:
    data = encode_method(1, BasicAck(7))
    assert written(False, data) == [data]


def test_a_tag_0_settles_what_it_settles() -> None:
    """It means all deliveries with multiple, and none without: section 1.8.3.13."""
    data = b"".join(encode_method(1, BasicAck(tag, multiple=True)) for tag in (0, 1, 2))
    _, counts = metered(False, written(False, data), is_cut=True)
    assert counts.values[Count.ACKED] == MESSAGES


@pytest.mark.parametrize("size", range(1, SIZE))
def test_a_run_that_is_cut_off_is_none(size: int) -> None:
    (run,) = written(False, encode_method(1, BasicAck(1)) + encode_method(1, BasicAck(2)))
    meter = MessageMeter(MessageCounts())
    meter.feed(False, run[:size], 1.0, True)
    assert meter.is_lost
