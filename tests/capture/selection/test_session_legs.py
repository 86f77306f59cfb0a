"""Connections of a recording that belong to the same session."""

from __future__ import annotations

from amqproxy.amqp010.commands import ExecutionSync
from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp010.frame import encode_method as encode_amqp010_method
from amqproxy.amqp091.frame import Frame, encode_method
from amqproxy.amqp091.methods import ChannelOpen
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import DecodedFrames
from amqproxy.capture.selection.session_legs import SessionLegs


def frames_on(stream: int, leg: str) -> DecodedFrames:
    frame = Frame(encode_method(1, ChannelOpen()))
    return Amqp091DecodedFrames(5, stream, "10.0.0.1:1-10.0.0.2:5672", "client", [frame], leg)


def amqp010_frames_on(stream: int, leg: str) -> DecodedFrames:
    frame = Amqp010Frame(encode_amqp010_method(1, ExecutionSync()))
    return Amqp010DecodedFrames(5, stream, "10.0.0.1:1-10.0.0.2:5672", "client", [frame], leg, command_ids=[0])


def test_the_same_frames_at_one_time_are_of_one_session() -> None:
    for made in (frames_on, amqp010_frames_on):
        legs = SessionLegs()
        passed = [made(0, "client"), made(1, "upstream")]
        assert list(legs.noted(passed)) == passed
        assert legs.client_stream(1) == 0
