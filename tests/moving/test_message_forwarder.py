"""Frames of deliveries become publishes, byte for byte but for the method; confirms become acknowledgements."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import Frame, encode_method
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    Method,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.moving.message_forwarder import MessageForwarder, MoveFailed
from amqproxy.moving.queue_move import publish_to

KEPT = Properties(
    headers=Table({"x-death": ["q"], "n": 1}),
    priority=4,
    expiration="60000",
    message_id="m",
    user_id="u",
)


def frames_of(data: bytes) -> list[Frame]:
    """Cut bytes into frames."""
    found = []
    while data:
        end = 8 + int.from_bytes(data[3:7])
        found.append(Frame(data[:end]))
        data = data[end:]
    return found


def delivery(
    tag: int,
    body: bytes = b"body",
    *,
    exchange: str = "x",
    key: str = "k",
    properties: Properties = KEPT,
    most: int = 0,
) -> list[Frame]:
    return frames_of(Command(1, BasicDeliver("c", tag, False, exchange, key), properties, body).encode(most))


def methods(*methods: Method) -> list[Frame]:
    return [Frame(encode_method(1, each)) for each in methods]


def test_a_delivery_is_published_byte_for_byte() -> None:
    forwarder = MessageForwarder(publish_to("amqproxy.move.q", "q"), 0)
    method, *content = frames_of(forwarder.deliver(delivery(7)))
    assert method.method == BasicPublish(0, "amqproxy.move.q", "k", mandatory=True)
    assert [each.raw for each in content] == [each.raw for each in delivery(7)[1:]]
    assert (len(forwarder.unsettled), forwarder.received, forwarder.moved) == (1, 1, 0)


@pytest.mark.parametrize(
    ("exchange", "key", "headers", "published_to"),
    [
        ("", "q", None, ""),
        ("", "other", None, "e"),
        ("x", "q", None, "e"),
        ("", "q", Table({"CC": ["another"]}), "e"),
    ],
)
def test_only_what_reaches_no_other_queue_goes_by_the_default_exchange(
    exchange: str, key: str, headers: Table | None, published_to: str
) -> None:
    forwarder = MessageForwarder(publish_to("e", "q"), 0)
    properties = Properties(headers=headers)
    method, *_ = frames_of(forwarder.deliver(delivery(1, exchange=exchange, key=key, properties=properties)))
    assert (method.method.exchange, method.method.routing_key) == (published_to, key)


@pytest.mark.parametrize("body", [b"", b"abc", bytes(9000)])
@pytest.mark.parametrize("step", [1, 2, 100])
def test_frames_may_come_in_any_chunks(body: bytes, step: int) -> None:
    whole = [*delivery(1, body, most=4096), *delivery(2, body, most=4096)]
    together = MessageForwarder(publish_to("e", "q"), 0).deliver(whole)
    forwarder = MessageForwarder(publish_to("e", "q"), 0)
    apart = b"".join(forwarder.deliver(whole[start : start + step]) for start in range(0, len(whole), step))
    assert apart == together
    assert len(forwarder.unsettled) == 2


def test_bodies_are_cut_for_the_target() -> None:
    forwarder = MessageForwarder(publish_to("e", "q"), 4096)
    frames = frames_of(forwarder.deliver(delivery(1, bytes(range(256)) * 64)))
    assert max(len(each.raw) for each in frames) <= 4096
    assert b"".join(each.payload for each in frames[2:]) == bytes(range(256)) * 64


def test_a_header_that_does_not_fit_is_not_cut() -> None:
    with pytest.raises(MoveFailed, match=r"content header of .* bytes exceeds the target's frame_max"):
        MessageForwarder(publish_to("e", "q"), 4096).deliver(
            delivery(1, properties=Properties(headers=Table({"h": "x" * 5000})))
        )


def test_a_confirm_acknowledges_the_delivery() -> None:
    forwarder = MessageForwarder(publish_to("e", "q"), 0)
    forwarder.deliver([*delivery(1), *delivery(2), *delivery(3)])
    assert forwarder.confirm(methods(BasicAck(2, multiple=True))) == encode_method(1, BasicAck(2, multiple=True))
    assert forwarder.confirm(methods(BasicAck(3))) == encode_method(1, BasicAck(3, multiple=True))
    assert (forwarder.moved, len(forwarder.unsettled)) == (3, 0)


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (BasicNack(2), "the target has refused a message"),
        (BasicReturn(312, "NO_ROUTE"), "the target has returned a message: 312 NO_ROUTE"),
        (ChannelClose(406, "PRECONDITION_FAILED - user_id"), "the target refuses: 406 PRECONDITION_FAILED - user_id"),
    ],
)
def test_a_refused_message_is_not_acknowledged_and_nothing_behind_it(method: Method, text: str) -> None:
    forwarder = MessageForwarder(publish_to("e", "q"), 0)
    forwarder.deliver([*delivery(1), *delivery(2), *delivery(3)])
    acks = forwarder.confirm(methods(BasicAck(1), method, BasicAck(3, multiple=True)))
    assert acks == encode_method(1, BasicAck(1, multiple=True))
    assert text in str(forwarder.failure)
    assert forwarder.confirm(methods(BasicAck(3, multiple=True))) == b""


@pytest.mark.parametrize(
    ("method", "text"),
    [(BasicCancel("c"), "the source has cancelled the consumer"), (ChannelClose(403, "in use"), "refuses: 403 in use")],
)
def test_the_source_may_end_the_move(method: Method, text: str) -> None:
    with pytest.raises(MoveFailed, match=text):
        MessageForwarder(publish_to("e", "q"), 0).deliver(methods(method))
