"""Publishes that a later RabbitMQ refuses or treats differently."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicPublish
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.rabbitmq.profile import PROFILES
from amqproxy.taps.findings.rabbitmq4 import published_messages
from amqproxy.taps.findings.rabbitmq4.published_messages import REPLY_TO
from tests.taps.findings.rabbitmq4.used import advice, connected, declare


def test_a_large_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published_messages, "TARGET", PROFILES["4.3"].__class__(version="4.3.6", message_size=2000))
    inspected = connected()
    inspected.client(BasicPublish(exchange="x", routing_key="k"), body=bytes(2000))
    assert advice(inspected) == []
    inspected.client(BasicPublish(exchange="x", routing_key="k"), body=bytes(2001))
    ((kind, text),) = advice(inspected)
    assert kind == "message-size"
    assert text.startswith('a message above 2000 bytes is published to exchange x by "amqplib 0.10.3" (user "shop")')


@pytest.mark.parametrize(("deaths", "is_found"), [([{"count": 1}], True), ([], False), (None, False)])
def test_deaths(deaths: object, is_found: bool) -> None:
    inspected = connected()
    headers = Table({"a": 1} if deaths is None else {"x-death": deaths})
    inspected.client(BasicPublish(routing_key="q"), properties=Properties(headers=headers))
    assert [kind for kind, _ in advice(inspected)] == ["x-death"] * is_found


@pytest.mark.parametrize(
    ("publish", "is_found"),
    [
        (BasicPublish(routing_key=f"{REPLY_TO}g1h2", mandatory=True), True),
        (BasicPublish(routing_key=f"{REPLY_TO}g1h2"), False),
        (BasicPublish(routing_key="replies", mandatory=True), False),
        (BasicPublish(exchange="x", routing_key=f"{REPLY_TO}g1h2", mandatory=True), False),
    ],
)
def test_replies(publish: BasicPublish, is_found: bool) -> None:
    inspected = connected()
    inspected.client(publish)
    assert [kind for kind, _ in advice(inspected)] == ["mandatory-reply"] * is_found


@pytest.mark.parametrize(
    ("queue_type", "priority", "is_found"),
    [("quorum", 5, True), ("quorum", 0, False), ("quorum", None, False), ("classic", 5, False)],
)
def test_priorities(queue_type: str, priority: int | None, is_found: bool) -> None:
    inspected = connected()
    declare(inspected, x_queue_type=queue_type)
    inspected.client(BasicPublish(routing_key="q"), properties=Properties(priority=priority))
    assert [kind for kind, _ in advice(inspected)] == ["quorum-priority"] * is_found
