"""Uses in an export of definitions."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.rabbitmq.profile import PROFILES
from amqproxy.readiness.definitions import add_definitions
from amqproxy.readiness.uses import Uses


def queue(**arguments: Any) -> dict[str, Any]:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return {"queues": [{"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": named}]}


def policy(**definition: Any) -> dict[str, Any]:
    named = {name.replace("_", "-"): value for name, value in definition.items()}
    return {"policies": [{"name": "p", "vhost": "/", "pattern": ".*", "definition": named}]}


@pytest.mark.parametrize(
    ("definitions", "kinds"),
    [
        ({}, []),
        (queue(), []),
        (queue(x_queue_version=1), ["queue-version"]),
        (queue(x_queue_mode="lazy"), ["queue-mode"]),
        (queue(x_consumer_timeout=1000), ["consumer-timeout"]),
        (queue(x_queue_master_locator="min-masters"), ["queue-master-locator"]),
        ({"queues": [{"name": "q", "durable": False, "arguments": []}]}, ["transient-queue"]),
        (policy(message_ttl=1000), []),
        (policy(ha_mode="all", message_ttl=1000), ["mirrored-queues"]),
        (policy(queue_master_locator="min-masters"), ["queue-master-locator"]),
        (
            {"parameters": [{"component": "operator_policy", "value": {"definition": {"ha-mode": "all"}}}]},
            ["mirrored-queues"],
        ),
        ({"parameters": [{"component": "federation-upstream", "name": "f", "value": {"uri": "amqp://"}}]}, []),
    ],
)
def test_definitions(definitions: dict[str, Any], kinds: list[str]) -> None:
    uses = Uses(PROFILES["4.3"])
    add_definitions(uses, definitions)
    assert [each.kind.removeprefix("rabbitmq4-") for each in uses.readiness().uses] == kinds


@pytest.mark.parametrize("wrong", [[], {"queues": {}}, {"policies": [1]}])
def test_another_file(wrong: object) -> None:
    with pytest.raises(ValueError, match="an export of definitions"):
        add_definitions(Uses(PROFILES["4.3"]), wrong)
