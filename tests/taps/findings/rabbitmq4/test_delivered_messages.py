"""Messages of quorum queues that come again and again."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.methods import BasicDeliver, BasicNack, BasicReject
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from tests.taps.findings.rabbitmq4.used import advice, connected, declare


def returned(refusal: BasicNack | BasicReject, count: int, **arguments: Any) -> list[tuple[str, str]]:
    inspected = connected()
    declare(inspected, x_queue_type="quorum", **arguments)
    inspected.consuming()
    inspected.server(BasicDeliver("c", 1, False, "", "q"))
    inspected.client(refusal)
    redelivered = BasicDeliver("c", 2, True, "", "q")
    inspected.server(redelivered, properties=Properties(headers=Table({"x-delivery-count": count})))
    return advice(inspected)


def test_a_message_that_was_rejected_often() -> None:
    ((kind, text),) = returned(BasicReject(1, requeue=True), 10)
    assert kind == "delivery-limit"
    assert text.startswith('a message of queue q was delivered 10 times or more by "amqplib')


@pytest.mark.parametrize(
    ("refusal", "count", "arguments"),
    [
        (BasicReject(1, requeue=True), 9, {}),
        (BasicNack(1), 12, {}),
        (BasicReject(1, requeue=True), 12, {"x_delivery_limit": 50}),
        (BasicReject(1, requeue=True), 12, {"x_dead_letter_exchange": "dead"}),
    ],
    ids=["few", "basic.nack, which does not count", "a limit of its own", "dead-lettered"],
)
def test_messages_that_are_not_lost(refusal: BasicNack | BasicReject, count: int, arguments: dict[str, Any]) -> None:
    assert returned(refusal, count, **arguments) == []
