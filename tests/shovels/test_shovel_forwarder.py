"""Deliveries become publishes, and confirms acknowledgements, in each ack mode."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.methods import (
    BasicAck,
    BasicNack,
    BasicPublish,
    ChannelClose,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionUnblocked,
    Method,
)
from amqproxy.moving.message_forwarder import MoveFailed
from amqproxy.shovels.property_changes import PropertyChanges
from amqproxy.shovels.shovel_forwarder import ShovelForwarder
from tests.shovels.shovel_frames import delivery, frames_of, methods, shovel_of


def forwarder_of(remaining: int | None = None, **changed: Any) -> ShovelForwarder:
    shovel = shovel_of(**changed)
    return ShovelForwarder(shovel, PropertyChanges(shovel, "s", "d", lambda: 0.0), 0, remaining)


def answered(forwarder: ShovelForwarder, *confirms: Method) -> list[Method]:
    return [each.method for each in frames_of(forwarder.confirm(methods(*confirms)))]


@pytest.mark.parametrize(
    ("changed", "exchange", "routing_key"),
    [
        ({}, "", "b"),
        ({"dest_queue": None}, "x", "k"),
        ({"dest_queue": None, "dest_exchange": "y"}, "y", "k"),
        ({"dest_queue": None, "dest_exchange": "y", "dest_exchange_key": "z"}, "y", "z"),
        ({"dest_queue": None, "dest_exchange_key": "z"}, "x", "z"),
    ],
)
def test_where_messages_go(changed: dict[str, Any], exchange: str, routing_key: str) -> None:
    method, *content = frames_of(forwarder_of(**changed).deliver(delivery(1)))
    assert method.method == BasicPublish(exchange=exchange, routing_key=routing_key)
    assert [each.raw for each in content] == [each.raw for each in delivery(1)[1:]]


def test_properties_are_changed_if_that_is_asked_for() -> None:
    _, header, _ = frames_of(forwarder_of(dest_add_forward_headers=True).deliver(delivery(1)))
    assert header.header.properties.headers["x-shovelled"][0]["shovel-name"] == "s"


def test_on_confirm_a_delivery_is_acknowledged_by_the_confirm() -> None:
    forwarder = forwarder_of()
    for tag in (4, 5, 6):
        forwarder.deliver(delivery(tag))
        assert forwarder.acknowledge() == b""
    assert answered(forwarder, BasicAck(2)) == [BasicAck(5)]
    assert answered(forwarder, BasicAck(3, multiple=True)) == [BasicAck(6, multiple=True)]
    assert (forwarder.forwarded, forwarder.moved, len(forwarder.unsettled)) == (3, 3, 0)


def test_on_publish_a_delivery_is_acknowledged_once_it_is_sent() -> None:
    forwarder = forwarder_of(ack_mode="on-publish")
    forwarder.deliver([*delivery(1), *delivery(2), *delivery(3)[:-1]])
    assert [each.method for each in frames_of(forwarder.acknowledge())] == [BasicAck(2, multiple=True)]
    assert forwarder.acknowledge() == b""
    forwarder.deliver(delivery(3)[-1:])
    assert [each.method for each in frames_of(forwarder.acknowledge())] == [BasicAck(3, multiple=True)]
    assert forwarder.moved == 3


def test_without_acks_nothing_is_acknowledged() -> None:
    forwarder = forwarder_of(ack_mode="no-ack")
    forwarder.deliver(delivery(1))
    assert forwarder.acknowledge() == b""
    assert (forwarder.moved, len(forwarder.unsettled)) == (1, 0)


def test_without_acks_all_that_is_delivered_is_published_since_the_source_has_forgotten_it() -> None:
    forwarder = forwarder_of(remaining=2, ack_mode="no-ack")
    published = frames_of(forwarder.deliver([*delivery(1), *delivery(2), *delivery(3)]))
    assert sum(isinstance(each.method, BasicPublish) for each in published if each.kind == 1) == 3
    forwarder.acknowledge()
    assert (forwarder.is_over, forwarder.moved, forwarder.unpublished) == (True, 3, 0)


def test_a_refused_message_returns_to_the_source() -> None:
    forwarder = forwarder_of(remaining=3)
    for tag in (1, 2, 3):
        forwarder.deliver(delivery(tag))
    assert forwarder.unpublished == 0
    assert answered(forwarder, BasicNack(2), BasicAck(3, multiple=True)) == [
        BasicNack(2, requeue=True),
        BasicAck(3, multiple=True),
    ]
    assert (forwarder.refused, forwarder.moved, forwarder.remaining, forwarder.unpublished) == (1, 2, 1, 1)
    assert answered(forwarder, BasicNack(9, multiple=True)) == []


def test_no_message_that_is_not_published_is_acknowledged_by_a_later_one() -> None:
    forwarder, unacknowledged = forwarder_of(remaining=2), {1, 2, 3, 4, 5}
    forwarder.deliver([each for tag in (1, 2, 3, 4) for each in delivery(tag)])
    for nack in answered(forwarder, BasicNack(2)):
        assert isinstance(nack, BasicNack)
        assert nack.requeue
        unacknowledged.remove(nack.delivery_tag)
    forwarder.deliver(delivery(5))
    [ack] = answered(forwarder, BasicAck(3, multiple=True))
    assert ack == BasicAck(5, multiple=True)
    assert unacknowledged == {1, 5}  # the source has the others again
    assert forwarder.is_over


@pytest.mark.parametrize("ack_mode", ["on-confirm", "on-publish"])
def test_after_a_number_of_messages_it_is_over(ack_mode: str) -> None:
    forwarder = forwarder_of(remaining=2, ack_mode=ack_mode)
    published = frames_of(forwarder.deliver([*delivery(1), *delivery(2), *delivery(3)]))
    assert sum(isinstance(each.method, BasicPublish) for each in published if each.kind == 1) == 2
    assert not forwarder.is_over  # they may never be sent
    forwarder.acknowledge()
    answered(forwarder, BasicAck(2, multiple=True))
    assert forwarder.is_over
    assert (forwarder.moved, forwarder.forwarded) == (2, 2)


def test_nothing_is_over_at_once() -> None:
    assert forwarder_of(remaining=0).is_over
    assert not forwarder_of().is_over


def test_a_blocked_destination() -> None:
    forwarder = forwarder_of()
    forwarder.confirm(methods(ConnectionBlocked("low on memory"), channel=0))
    assert forwarder.is_blocked
    forwarder.confirm(methods(ConnectionUnblocked(), channel=0))
    assert not forwarder.is_blocked


@pytest.mark.parametrize("method", [ChannelClose(404, "NOT_FOUND"), ConnectionClose(320, "CONNECTION_FORCED")])
def test_a_closed_destination_is_a_failure(method: Method) -> None:
    forwarder = forwarder_of()
    forwarder.deliver(delivery(1))
    assert answered(forwarder, BasicAck(1), method) == [BasicAck(1, multiple=True)]
    assert str(forwarder.failure) == f"the destination refuses: {method.reply_code} {method.reply_text}"  # type: ignore[attr-defined]


def test_a_closed_source_is_a_failure() -> None:
    with pytest.raises(MoveFailed, match="the source refuses: 404 NOT_FOUND"):
        forwarder_of().deliver(methods(ChannelClose(404, "NOT_FOUND")))
