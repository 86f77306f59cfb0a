"""Frames made anew: those that were changed, and no others."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import BODY, HEADER, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import BasicAck, BasicNack, BasicPublish, BasicReject, Method
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.proxy.amqp091.interception.encoding import altered, method_frame, settling
from amqproxy.proxy.amqp091.interception.tag_translation import Settled
from amqproxy.proxy.interception.actions import damaged


def publish() -> Command:
    return Command.received(
        [
            Frame(encode_method(3, BasicPublish(routing_key="a"))),
            Frame(encode_frame(HEADER, 3, ContentHeader(4).encode())),
            Frame(encode_frame(BODY, 3, b"bo")),
            Frame(encode_frame(BODY, 3, b"dy")),
        ]
    )


def test_a_frame_of_a_method() -> None:
    frame = method_frame(3, BasicAck(7, True))
    assert frame.raw == encode_method(3, BasicAck(7, True))
    assert (frame.channel, frame.method) == (3, BasicAck(7, True))


def test_what_was_not_changed_is_what_came() -> None:
    command = publish()
    again = altered(command)
    assert all(one is other for one, other in zip(again, command.frames, strict=True))


def test_another_method_leaves_the_content_alone() -> None:
    command = publish()
    changed = altered(command.altered(method=BasicPublish(routing_key="b")))
    assert changed[0].method == BasicPublish(routing_key="b")
    assert changed[0].channel == 3
    assert changed[1:] == list(command.frames[1:])


def test_other_properties_leave_the_rest_alone() -> None:
    command = publish()
    changed = altered(command.altered(properties=Properties(priority=5)))
    assert changed[0] is command.frames[0]
    assert changed[1].header == ContentHeader(4, Properties(priority=5))
    assert changed[2:] == list(command.frames[2:])


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        ((), b"\x00\x0f\xff"),
        (((0, 1),), b"\x01\x0f\xff"),
        (((1, 0xFF), (2, 0x80)), b"\x00\xf0\x7f"),
        (((4, 0x0F),), b"\x00\x00\xff"),  # a place behind the end counts on from the beginning
        (((2, 0xFF), (2, 0xFF)), b"\x00\x0f\xff"),
    ],
)
def test_bits_are_flipped(damage: tuple[tuple[int, int], ...], expected: bytes) -> None:
    assert damaged(b"\x00\x0f\xff", damage) == expected


@pytest.mark.parametrize(
    ("method", "settled", "expected"),
    [
        (BasicAck(9, True), [], []),
        (BasicAck(9), [(4, False)], [BasicAck(4, False)]),
        (BasicAck(9, True), [(4, True), (6, False)], [BasicAck(4, True), BasicAck(6, False)]),
        (BasicNack(9, False, False), [(4, True)], [BasicNack(4, True, False)]),
        (BasicReject(9, False), [(4, False), (5, False)], [BasicReject(4, False), BasicReject(5, False)]),
    ],
)
def test_settling_under_other_numbers(method: Method, settled: Settled, expected: list[Method]) -> None:
    frames = settling(3, method, settled)
    assert [frame.method for frame in frames] == expected
    assert {frame.channel for frame in frames} <= {3}
