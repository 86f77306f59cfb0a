"""Commands from their frames."""

import pytest

from amqproxy.amqp010.commands import MessageTransfer, QueueDeclare
from amqproxy.amqp010.errors import ResourceLimitExceeded
from amqproxy.amqp010.frame import COMMAND, FIRST_FRAME, FIRST_SEGMENT, LAST_SEGMENT, Frame, encode_frame
from amqproxy.amqp010.properties import Header, MessageProperties
from amqproxy.amqp010.wire import Map
from amqproxy.taps.trace.amqp010.partial_command import MAX_SEGMENT, PartialCommand
from amqproxy.taps.trace.content import BodyDigest
from tests.taps.trace.amqp010.traced import frames_of


@pytest.mark.parametrize("size", [0, 10, 5000])
def test_a_transfer_has_its_header_and_the_beginning_of_its_body(size: int) -> None:
    header = Header((MessageProperties(application_headers=Map({f"name{number}": "y" * 200 for number in range(10)})),))
    body = bytes(range(250)) * (size // 250 + 1)
    frames = frames_of(1, MessageTransfer(accept_mode=0, acquire_mode=0), header, body[:size])
    command = PartialCommand(7, 100, is_digested=True)
    assert [command.add(frame) for frame in frames] == [False] * (len(frames) - 1) + [True]
    assert (command.header, command.size, command.body) == (header, size, body[:size][:100])
    digest = BodyDigest()
    digest.update(body[:size])
    assert command.digest == digest.digest()


def test_a_command_may_come_in_several_frames() -> None:
    declare = QueueDeclare(queue="q", arguments=Map({f"name{number}": "x" * 200 for number in range(20)}))
    frames = frames_of(1, declare)
    assert len(frames) > 3
    command = PartialCommand(None, 0, is_digested=False)
    assert [command.add(frame) for frame in frames][-1]
    assert command.method == declare


def test_a_segment_is_bounded() -> None:
    command = PartialCommand(0, 0, is_digested=False)
    piece = encode_frame(FIRST_SEGMENT | LAST_SEGMENT | FIRST_FRAME, COMMAND, 1, b"x" * 65_000)
    for _ in range(MAX_SEGMENT // 65_000):
        command.add(Frame(piece))
    with pytest.raises(ResourceLimitExceeded):
        command.add(Frame(piece))


def test_of_a_body_that_is_not_all_known_there_is_no_digest() -> None:
    command_frame, body_frame = frames_of(1, MessageTransfer(accept_mode=0, acquire_mode=0), None, b"hello world")
    command = PartialCommand(0, 100, is_digested=True)
    command.add(command_frame)
    command.add(Frame(body_frame.raw, 0, 5))
    assert (command.size, command.body, command.digest) == (11, b"hello ", b"")
