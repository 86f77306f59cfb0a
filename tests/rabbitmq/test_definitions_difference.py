"""Definitions of two brokers are compared by what clients notice."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.rabbitmq.definitions_difference import differences

QUEUE = {"vhost": "/", "name": "q", "durable": True, "arguments": {}}
BINDING = {"vhost": "/", "source": "x", "destination_type": "queue", "destination": "q", "routing_key": "k"}


@pytest.mark.parametrize(
    ("source", "target", "lines"),
    [
        ({}, {}, []),
        ({"queues": [QUEUE]}, {"queues": [QUEUE | {"arguments": []}]}, []),
        ({"queues": [QUEUE]}, {"queues": [QUEUE | {"arguments": {"x-queue-type": "classic"}}]}, []),
        ({"exchanges": [{"vhost": "/", "name": "amq.rabbitmq.log"}]}, {}, []),
        ({"queues": [QUEUE]}, {}, ["only the source has the queue / q"]),
        ({}, {"policies": [{"vhost": "/", "name": "p"}]}, ["only the target has the policy / p"]),
        (
            {"queues": [QUEUE]},
            {"queues": [QUEUE | {"arguments": {"x-queue-type": "quorum"}}]},
            [
                "the queue / q differs: arguments is None at the source, {'x-queue-type': 'quorum'} at the target",
            ],
        ),
        (
            {"bindings": [BINDING, BINDING | {"routing_key": "l"}]},
            {"bindings": [BINDING]},
            ["only the source has the binding / x queue q l"],
        ),
        ({"users": [{"name": "u", "password_hash": "a"}]}, {"users": [{"name": "u", "password_hash": "b"}]}, []),
        ({"queues": {}}, {"queues": [1]}, []),
    ],
)
def test_differences(source: dict[str, Any], target: dict[str, Any], lines: list[str]) -> None:
    assert list(differences(source, target)) == lines
