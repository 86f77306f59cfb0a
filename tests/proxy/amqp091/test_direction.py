"""The frame that an error is about."""

from amqproxy.amqp091.errors import ConnectionForced, FrameError
from amqproxy.amqp091.frame import Frame
from amqproxy.proxy.amqp091.direction import culprit_of
from tests.transcripts.words import octets


def test_the_frame_that_an_error_is_about() -> None:
    frames = [Frame(octets("heartbeat"), 0), Frame(octets("1: basic.ack"), 8)]
    assert culprit_of(frames, FrameError("x", offset=9)) is frames[1]
    assert culprit_of(frames, FrameError("x", offset=100)) is None
    assert culprit_of(frames, ConnectionForced("no offset")) is None
