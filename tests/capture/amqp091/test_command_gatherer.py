"""Whole commands from captured frames, of which some may be missing or malformed."""

from __future__ import annotations

from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT, METHOD, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import BasicPublish, ChannelOpen
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.capture.amqp091.command_gatherer import CommandGatherer

PUBLISH = Frame(encode_method(1, BasicPublish(routing_key="q")))
HEAD = Frame(encode_frame(HEADER, 1, ContentHeader(4).encode()))
PART = Frame(encode_frame(BODY, 1, b"ab"))
OPEN = Frame(encode_method(1, ChannelOpen()))


def gathered(*frames: Frame, gatherer: CommandGatherer | None = None) -> list[bytes]:
    """The bodies of the commands that these frames complete, or their methods' names."""
    gatherer = gatherer or CommandGatherer()
    found = [command for frame in frames if (command := gatherer.gather(CLIENT, frame)) is not None]
    return [each.body if each.index >= 0 and each.method.carries_content else b"other" for each in found]


def test_content_comes_with_its_method() -> None:
    assert gathered(PUBLISH, HEAD, PART, PART, OPEN) == [b"abab", b"other"]
    assert gathered(Frame(encode_frame(HEARTBEAT, 0, b""))) == [b"other"]


def test_content_without_its_beginning_is_left_out() -> None:
    assert gathered(PART, HEAD, PART, OPEN, PUBLISH, HEAD, PART, PART) == [b"other", b"abab"]
    assert gathered(PUBLISH, PART, PUBLISH, HEAD, OPEN) == [b"other"]


def test_each_side_and_channel_is_by_itself() -> None:
    gatherer = CommandGatherer()
    assert gatherer.gather(SERVER, PUBLISH) is None
    assert gathered(HEAD, PART, PART, gatherer=gatherer) == []
    other = Frame(encode_method(2, BasicPublish(routing_key="q")))
    assert gathered(PUBLISH, other, HEAD, PART, PART, gatherer=gatherer) == [b"abab"]


def test_what_is_malformed_is_left_out() -> None:
    malformed = Frame(encode_frame(METHOD, 1, encode_method(1, BasicPublish())[7:11] + b"\0"))
    assert gathered(malformed, HEAD, PART, PART, OPEN) == [b"other"]
