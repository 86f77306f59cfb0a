"""Queues that a later RabbitMQ does not declare as they are."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.methods import QueueDeclare, QueueDeclareOk
from tests.taps.findings.rabbitmq4.used import advice, connected, declare


@pytest.mark.parametrize(
    ("properties", "kinds"),
    [
        ({}, []),
        ({"durable": False}, ["transient-queue"]),
        ({"x_queue_version": 1}, ["queue-version"]),
        ({"x_queue_version": 2}, []),
        ({"x_queue_mode": "lazy"}, ["queue-mode"]),
        ({"x_queue_master_locator": "min-masters"}, ["queue-master-locator"]),
        ({"x_queue_leader_locator": "balanced"}, []),
        ({"x_consumer_timeout": 1000}, ["consumer-timeout"]),
        ({"x_queue_type": "quorum", "x_consumer_timeout": 1000}, []),
        ({"x_queue_type": "quorum", "x_max_length_bytes": 1000}, ["quorum-bytes"]),
        ({"x_max_length_bytes": 1000}, []),
    ],
)
def test_a_declare(properties: dict[str, Any], kinds: list[str]) -> None:
    inspected = connected()
    declare(inspected, **properties)
    assert [kind for kind, _ in advice(inspected)] == kinds


@pytest.mark.parametrize("method", [QueueDeclare(queue="q", passive=True), QueueDeclare(queue="q", exclusive=True)])
def test_a_declare_that_makes_no_queue_for_others(method: QueueDeclare) -> None:
    inspected = connected()
    inspected.client(method)
    inspected.server(QueueDeclareOk("q", 0, 0))
    assert advice(inspected) == []


def test_a_declare_without_a_reply() -> None:
    inspected = connected()
    inspected.client(QueueDeclare(queue="q", no_wait=True))
    assert [kind for kind, _ in advice(inspected)] == ["transient-queue"]


def test_a_queue_named_by_the_broker() -> None:
    inspected = connected()
    declare(inspected, "", durable=False)
    ((_, text),) = advice(inspected)
    assert text.startswith("a queue named by the broker is declared neither durable nor exclusive")
