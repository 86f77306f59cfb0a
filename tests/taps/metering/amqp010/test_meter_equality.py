"""The meter over bytes beside `PlainAmqp010Meter`, which decodes all: every number is the same, however it is cut."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.commands import (
    DtxEnd,
    DtxStart,
    ExecutionResult,
    ExecutionSync,
    MessageAccept,
    MessageCancel,
    MessageFlow,
    MessageReject,
    MessageRelease,
    MessageSubscribe,
    MessageTransfer,
    QueueDeclare,
    QueueQuery,
    TxSelect,
)
from amqproxy.amqp010.controls import (
    ConnectionHeartbeat,
    ConnectionOpen,
    ConnectionOpenOk,
    SessionAttach,
    SessionAttached,
    SessionCommandPoint,
    SessionCompleted,
    SessionDetach,
    SessionDetached,
    SessionGap,
    SessionKnownCompleted,
)
from amqproxy.amqp010.frame import BODY, encode_method
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.metering.amqp010.meter import Amqp010Meter
from amqproxy.taps.metering.message_counts import MessageCounts
from tests.amqp010.captured import connections
from tests.amqp010.recorded import SESSIONS, capture
from tests.example_count import example_count
from tests.proxy.amqp010_script import ATTACH, DETACH, LOGIN, MESSAGES, Step
from tests.pump.amqp010.random_commands import frames_of
from tests.taps.metering.amqp010.plain_meter import PlainAmqp010Meter

CHANNELS = (0, 1, 2)
CUT_FRAME = 12
KINDS = ("attach", "point", *["transfers"] * 6, *["settle", "complete"] * 2, "command", "control")


def shown(counts: MessageCounts) -> dict[str, Any]:
    """All that metrics show."""
    distributions = {
        "confirm": counts.confirm_seconds,
        "ack": counts.ack_seconds,
        "published": counts.published_bytes,
        "delivered": counts.delivered_bytes,
        **counts.requests,
    }
    return {
        "values": counts.values.tolist(),
        **{name: (each.counts.tolist(), each.total) for name, each in distributions.items()},
    }


class Compared:
    """Both meters; time is in halves of seconds, of which sums are exact."""

    def __init__(self) -> None:
        self.plain = PlainAmqp010Meter()
        self.counts = MessageCounts()
        self.meter = Amqp010Meter(self.counts)
        self.cut_counts = MessageCounts()
        self.cut_meter = Amqp010Meter(self.cut_counts)
        self.readers = {peer: FrameReader(frame_max=0) for peer in Peer}
        self.numberings = {peer: CommandNumbering() for peer in Peer}
        self.passed_over = {peer: CommandNumbering() for peer in Peer}
        self.channels = set(CHANNELS)

    def feed(self, sender: Peer, data: bytes, now: float) -> bool:
        """Have all take bytes as they come; False where a reader takes no more."""
        reader = self.readers[sender]
        if reader.error is not None:
            return False
        frames = reader.feed(data)
        taken = bytes(reader.taken)
        if not taken:
            return True
        self.plain.feed(sender, frames, self.numberings[sender].numbers(frames), now)
        self.meter.feed(sender is SERVER, reader.taken, now)
        cut = [each[:CUT_FRAME] if each[1] == BODY else each for each in frames_of(taken)]
        self.cut_meter.feed(sender is SERVER, memoryview(b"".join(cut)), now, True)
        self.passed_over[sender].pass_over(taken)
        self.channels.update(frame.channel for frame in frames)
        return True

    def check(self) -> None:
        assert shown(self.counts) == shown(self.plain.counts)
        assert shown(self.cut_counts) == shown(self.plain.counts)
        for channel in self.channels:
            for peer in Peer:
                one, other = self.numberings[peer], self.passed_over[peer]
                assert one.following(channel) == other.following(channel)
                assert one.current(channel) == other.current(channel)
            session, expected = self.meter.session(channel), self.plain.sessions.get(channel)
            assert (session is None) == (expected is None)
            if session is not None and expected is not None:
                client, server = (expected.sending[peer] for peer in (CLIENT, SERVER))
                assert (session.published, session.delivered) == (client.sent, server.sent)
                assert (session.unconfirmed, session.unacked) == (len(client.open), len(server.open))
                assert session.requests == len(expected.requests)
                assert session.consumers == expected.consumers
                assert session.is_transactional == expected.is_transactional

    def close(self) -> None:
        """End all: nothing is left open."""
        for meter in (self.plain, self.meter, self.cut_meter):
            meter.close()
        self.check()
        assert self.counts.values[-3:].tolist() == [0, 0, 0]


def conversation(dice: Random, steps: int) -> list[Step]:
    """What peers may send each other: on channels whose frames interleave, and some of it wrong."""
    found: list[Step] = []
    for _ in range(steps):
        sender = dice.choice((CLIENT, SERVER))
        lanes = [frames_of(_lane(dice, sender, dice.choice(CHANNELS))) for _ in range(dice.randint(1, 3))]
        numbers = [int.from_bytes(each[0][6:8]) for each in lanes]
        if len(set(numbers)) == len(numbers):  # frames of one channel keep their order
            out = b""
            while any(lanes):
                out += dice.choice([each for each in lanes if each]).pop(0)
        else:
            out = b"".join(b"".join(each) for each in lanes)
        if dice.random() < 0.1:
            out = _spoilt(dice, out)
        found.append((sender, out))
    return found


def _spoilt(dice: Random, data: bytes) -> bytes:
    """With bytes of payload that are other ones, and the frame headers as they were."""
    frames = [bytearray(each) for each in frames_of(data)]
    for each in frames:
        if len(each) > CUT_FRAME + 2 and dice.random() < 0.5:
            each[dice.randrange(CUT_FRAME + 2, min(len(each), 40))] = dice.choice((0, 1, 2, 4, 7, 255))
    return b"".join(frames)


def _ids(dice: Random) -> SequenceSet | None:
    first = dice.choice((0, 0, 5, 0xFFFF_FFFC)) + dice.randint(0, 3)
    ranges = []
    for _ in range(dice.randint(0, 3)):
        last = first + dice.randint(0, 6)
        ranges.append((first & 0xFFFF_FFFF, last & 0xFFFF_FFFF))
        first = last + dice.randint(-2, 3)
    return SequenceSet(ranges) if dice.random() < 0.95 else None


def _transfers(dice: Random, channel: int) -> bytes:
    """Some of a kind, one after the other."""
    destination = dice.choice(("x", None))
    properties = [DeliveryProperties(routing_key="k", redelivered=dice.random() < 0.2)]
    if dice.random() < 0.5:
        properties.insert(dice.randint(0, 1), MessageProperties(content_length=3))
    header = Header(tuple(properties)) if dice.random() < 0.9 else None
    transfer = MessageTransfer(destination, dice.choice((0, 0, 1, None)), 0)
    body = bytes(dice.choice((0, 1, 10, 10, 300))) or None
    return Assembly(channel, transfer, header, body).encode(dice.choice((40, 150, 4096))) * dice.randint(1, 4)


def _lane(dice: Random, sender: Peer, channel: int) -> bytes:
    ids = _ids(dice)
    point = encode_method(channel, SessionCommandPoint(dice.choice((0, 1, 0xFFFF_FFFD)), 0))
    settlements = (
        MessageAccept(ids),
        MessageRelease(ids, set_redelivered=dice.random() < 0.5),
        MessageReject(ids, dice.choice((0, 1, 2, None)), dice.choice(("no", None))),
    )
    commands = (
        ExecutionSync(),
        QueueDeclare("q" * 90),
        QueueQuery("q"),
        MessageFlow("d", 0, 9),
        ExecutionResult(dice.randint(0, 9)),
        MessageSubscribe("q", dice.choice("de"), dice.choice((0, 1)), 0),
        MessageCancel("d"),
        *((TxSelect(), DtxStart()) if dice.random() < 0.2 else ()),
        DtxEnd(),
    )
    controls = (
        ConnectionHeartbeat(),
        SessionKnownCompleted(ids),
        *((SessionGap(ids), SessionDetach(b"s"), SessionDetached(b"s", 0)) if dice.random() < 0.1 else ()),
        *((ConnectionOpen("/"),) if sender is CLIENT else (ConnectionOpenOk(),)),
    )
    match dice.choice(
        ("attach", "point", *["transfers"] * 6, "settle", "settle", "complete", "complete", "command", "control")
    ):
        case "attach":
            return encode_method(channel, SessionAttach(b"s") if sender is CLIENT else SessionAttached(b"s")) + point
        case "point":
            return point
        case "transfers":
            return _transfers(dice, channel)
        case "settle":
            return encode_method(channel, dice.choice(settlements), dice.choice((20, 4096)))
        case "complete":
            return encode_method(channel, SessionCompleted(ids), dice.choice((20, 4096)))
        case "command":
            return encode_method(channel, dice.choice(commands), dice.choice((20, 4096)))
        case _:
            return encode_method(channel, dice.choice(controls))


def pieces_of(dice: Random, data: bytes, most: int) -> Iterable[bytes]:
    at = 0
    while at < len(data):
        end = at + dice.randint(1, most)
        yield data[at:end]
        at = end


@settings(deadline=None, max_examples=example_count(50))
@given(st.randoms(use_true_random=False), st.integers(1, 30), st.sampled_from((7, 100, 100_000)))
def test_all_numbers_are_the_same(dice: Random, steps: int, most: int) -> None:
    compared = Compared()
    for now, (sender, data) in enumerate(conversation(dice, steps)):
        if not all(compared.feed(sender, piece, now / 2) for piece in pieces_of(dice, data, most)):
            break
    compared.check()
    compared.close()


@pytest.mark.parametrize("size", [1, 13, 1 << 20])
def test_wherever_it_is_cut(size: int) -> None:
    whole = [
        (sender, data.removeprefix(HEADER))
        for sender, data in (*LOGIN, *ATTACH, *MESSAGES, *DETACH, *ATTACH, *MESSAGES)
    ]
    whole += conversation(Random(7), 60)
    compared = Compared()
    for now, (sender, data) in enumerate(whole):
        for at in range(0, len(data), size):
            compared.feed(sender, data[at : at + size], now / 2)
        compared.check()
    assert all(compared.counts.values[each] for each in range(10)), "each of them occurs"


@pytest.mark.parametrize("name", SESSIONS)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_captures(name: str, size: int) -> None:
    for pieces in connections(capture(name)):
        compared = Compared()
        begun: set[Peer] = set()
        for now, (sender, data) in enumerate(pieces):
            rest = data if sender in begun else data.removeprefix(HEADER)
            begun.add(sender)
            for at in range(0, len(rest), size):
                assert compared.feed(sender, rest[at : at + size], now / 2)
        compared.check()
        compared.close()
