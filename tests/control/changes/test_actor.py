"""Argument tables in changes: what no AMQP client could send is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.control.changes.changing import Changing


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(depth):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-max-length": 2**63},
        {"a": [-(2**63) - 1]},
        nested(900),
        {"a": [[]] * 50_000},
        {"a": [0] * 20_000},
        {"n" * 256: 1},
    ],
    ids=["integer", "integer-in-a-list", "deep", "json", "table", "name"],
)
def test_a_table_that_no_client_could_send_is_refused(arguments: dict[str, Any]) -> None:
    broker = Changing()
    assert broker.refusal("declare-queue", vhost="/", name="made", arguments=arguments) == "invalid"
    assert broker.refusal("declare-exchange", vhost="/", name="made", arguments=arguments) == "invalid"
    ends = {"vhost": "/", "source": "amq.topic", "destination_type": "queue", "destination": "q"}
    assert broker.refusal("bind", **ends, arguments=arguments) == "invalid"
    message = {"vhost": "/", "exchange": "", "routing_key": "q", "body": ""}
    assert broker.refusal("publish", **message, properties={"headers": arguments}) == "invalid"
    assert broker.names("queues") == ["q"]


@pytest.mark.parametrize("headers", [[1], "text", 1])
def test_headers_that_are_not_an_object_are_refused(headers: Any) -> None:
    message = {"vhost": "/", "exchange": "", "routing_key": "q", "body": ""}
    assert Changing().refusal("publish", **message, properties={"headers": headers}) == "invalid"


def test_a_policy_is_no_larger_than_a_frame() -> None:
    policy = {"vhost": "/", "name": "p", "pattern": "", "definition": {"dead-letter-routing-key": "x" * 131_072}}
    assert Changing().refusal("put-policy", **policy) == "invalid"
