"""What a session sends: numbers, frames, and what is kept for a client that comes back."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.assembly import Assembly, AssemblyReader
from amqproxy.amqp010.commands import ExecutionSync, MessageTransfer
from amqproxy.amqp010.controls import SessionCommandPoint, SessionFlush, SessionTimeout
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.properties import DeliveryProperties
from amqproxy.broker.amqp010.replay import MOST_COMMANDS
from amqproxy.broker.amqp010.session_sender import SessionSender
from amqproxy.broker.amqp010.subscription import Subscription
from amqproxy.broker.connections.output import OutputBuffer
from amqproxy.broker.work import Quantum
from tests.broker.yard import Yard

FRAME_MAX = 4096
HEADER = DeliveryProperties(routing_key="q").encode()


class Channel:
    """A sender, and what comes out of it."""

    def __init__(self, frame_max: int = FRAME_MAX) -> None:
        self.output = OutputBuffer(frame_max, lambda: None)
        self.sender = SessionSender(1, self.output)
        self.subscription = Subscription("d", Yard().queue(), accepts_explicitly=True, acquires=True)

    def assemblies(self) -> list[Assembly]:
        reader = AssemblyReader()
        frames = FrameReader(frame_max=FRAME_MAX).feed(self.output.take_bytes())
        self.output.sent()
        return [made for made in map(reader.add, frames) if made is not None]

    def methods(self) -> list[Method]:
        return [assembly.method for assembly in self.assemblies()]

    def transfer(self, body: bytes, header: bytes = HEADER) -> int:
        return self.sender.transfer(self.subscription, header, body)


def test_the_first_command_has_its_place_before_it() -> None:
    channel = Channel()
    channel.sender.control(SessionTimeout(1))
    assert channel.sender.send(ExecutionSync()) == 0
    assert channel.sender.send(ExecutionSync()) == 1
    assert channel.methods() == [SessionTimeout(1), SessionCommandPoint(0, 0), ExecutionSync(), ExecutionSync()]


@pytest.mark.parametrize("size", [0, 1, 100, FRAME_MAX - 12, FRAME_MAX - 11, 3 * FRAME_MAX, 100_000])
def test_transfers_are_framed(size: int) -> None:
    channel = Channel()
    bodies = [b"a" * size, b"b" * size, b"c" * (size // 2), b"d" * (size + 1)]
    assert [channel.transfer(body) for body in bodies] == [0, 1, 2, 3]
    _, *transfers = channel.assemblies()
    assert [each.body for each in transfers] == bodies
    assert {each.method for each in transfers} == {MessageTransfer("d", 0, 0)}
    assert {each.delivery_properties.routing_key for each in transfers} == {"q"}
    assert all(len(frame.raw) <= FRAME_MAX for each in transfers for frame in each.frames)


def test_each_has_its_header() -> None:
    channel = Channel()
    keys = ["q", "q", "other", "q"]
    for key in keys:
        channel.transfer(b"x", DeliveryProperties(routing_key=key).encode())
    _, *transfers = channel.assemblies()
    assert [each.delivery_properties.routing_key for each in transfers] == keys


def test_it_sends_while_there_is_room() -> None:
    channel = Channel()
    assert channel.sender.may_send()
    channel.output.has_room = False
    assert not channel.sender.may_send()
    channel.output.has_room = True
    channel.sender.is_over = True
    assert not channel.sender.may_send()


def test_it_sends_no_more_than_it_can_keep() -> None:
    channel = Channel()
    for _ in range(MOST_COMMANDS):
        channel.sender.send(ExecutionSync())
    assert channel.sender.may_send(), "nothing was to be kept"
    channel.sender.keeps = True
    for _ in range(MOST_COMMANDS):
        channel.sender.send(ExecutionSync())
    channel.output.take_bytes()
    channel.output.sent()
    assert not channel.sender.may_send()
    channel.sender.replay.confirmed([range(2 * MOST_COMMANDS)])
    assert channel.sender.may_send()


def test_a_client_that_comes_back_is_sent_what_it_expects() -> None:
    channel = Channel()
    sender = channel.sender
    sender.keeps = True
    channel.transfer(b"one")
    sender.send(ExecutionSync())
    channel.methods()
    sender.detach()
    assert not sender.may_send()
    sender.control(SessionTimeout(1))
    assert sender.send(ExecutionSync()) == 2
    output = OutputBuffer(FRAME_MAX, lambda: None)
    channel.output = output
    assert sender.attach(7, output)
    assert not sender.may_send()
    assert sender.send(ExecutionSync()) == 3
    assert channel.methods() == [SessionFlush(expected=True)]
    assert list(sender.replaying([range(1, 2)], Quantum(), 0.0)) == []
    assembled = channel.assemblies()
    assert [each.method for each in assembled] == [SessionCommandPoint(1, 0), *3 * [ExecutionSync()]]
    assert {each.channel for each in assembled} == {7}
    assert sender.may_send()


def test_one_that_was_sent_nothing_is_not_asked() -> None:
    channel = Channel()
    channel.sender.detach()
    assert not channel.sender.attach(1, channel.output)
    assert channel.sender.may_send()
    assert channel.methods() == []


def test_replay_ends_where_the_client_is_gone_again() -> None:
    channel = Channel()
    channel.sender.keeps = True
    for _ in range(10):
        channel.sender.send(ExecutionSync())
    channel.sender.detach()
    channel.sender.attach(1, channel.output)
    quantum = Quantum()
    quantum.limit(step=1, seconds=0.0, clock=lambda: 0.0)
    steps = channel.sender.replaying([range(1)], quantum, 0.0)
    next(steps)
    channel.sender.detach()
    with pytest.raises(StopIteration):
        steps.send(1.0)
    assert not channel.sender.may_send()
