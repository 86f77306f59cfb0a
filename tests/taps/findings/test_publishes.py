"""Publishes that may be lost silently, and those that were refused."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import (
    BasicAck,
    BasicNack,
    BasicPublish,
    BasicReturn,
    QueueDeclare,
    QueueDeclareOk,
    TxSelect,
    TxSelectOk,
)
from amqproxy.amqp091.properties import Properties
from tests.taps.findings.inspected import Inspected

PERSISTENT = Properties(delivery_mode=2)


def test_a_persistent_publish_without_confirms() -> None:
    inspected = Inspected(1)
    inspected.client(BasicPublish(exchange="e"), properties=Properties())
    assert inspected.kinds == []
    inspected.client(BasicPublish(exchange="e"), properties=PERSISTENT)
    assert [(each.kind, each.text) for each in inspected.findings] == [
        ("unconfirmed-publish", "a persistent message to exchange e is published without confirms")
    ]


def test_with_confirms_or_in_a_transaction_it_is_right() -> None:
    inspected = Inspected(1, 2)
    inspected.confirming(1)
    inspected.client(TxSelect(), channel=2)
    inspected.server(TxSelectOk(), channel=2)
    for channel in (1, 2):
        inspected.client(BasicPublish(exchange="e"), channel=channel, properties=PERSISTENT)
    assert inspected.kinds == []


def test_joined_in_the_middle_the_mode_is_not_known() -> None:
    inspected = Inspected(joined=True)
    inspected.client(BasicPublish(exchange="e"), properties=PERSISTENT)
    assert inspected.kinds == []


def test_a_return() -> None:
    inspected = Inspected(1)
    inspected.server(BasicReturn(312, "NO_ROUTE", "", "nowhere"))
    assert [(each.kind, each.text) for each in inspected.findings] == [
        ("returned-publish", "exchange default returned a message with routing key 'nowhere': NO_ROUTE")
    ]


def test_a_nack() -> None:
    inspected = Inspected(1)
    inspected.confirming()
    inspected.client(*[BasicPublish()] * 3)
    inspected.server(BasicAck(1))
    assert inspected.kinds == []
    inspected.server(BasicNack(3, multiple=True))
    assert [(each.kind, each.text) for each in inspected.findings] == [("nacked-publish", "2 messages were nacked")]


@pytest.mark.parametrize(
    ("publish", "properties", "kinds"),
    [
        (BasicPublish(routing_key="q"), Properties(), ["transient-to-durable"]),
        (BasicPublish(routing_key="q"), Properties(delivery_mode=1), ["transient-to-durable"]),
        (BasicPublish(routing_key="q"), PERSISTENT, ["unconfirmed-publish"]),
        (BasicPublish(routing_key="r"), Properties(), []),
        (BasicPublish(exchange="e", routing_key="q"), Properties(), []),
    ],
)
def test_transient_messages_to_a_durable_queue(publish: BasicPublish, properties: Properties, kinds: list[str]) -> None:
    inspected = Inspected(1)
    inspected.client(QueueDeclare(queue="q", durable=True), QueueDeclare(queue="r"))
    inspected.server(QueueDeclareOk("q", 0, 0), QueueDeclareOk("r", 0, 0))
    inspected.client(publish, properties=properties)
    assert inspected.kinds == kinds
