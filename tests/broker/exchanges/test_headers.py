"""headers: each row was asked of RabbitMQ 3.10."""

from typing import Any

import pytest

from amqproxy.amqp091.wire import Item
from tests.broker.client import connected


@pytest.mark.parametrize(
    ("arguments", "headers", "expected"),
    [
        ({}, None, True),
        ({"x-match": "any"}, None, False),
        ({"x-match": "all"}, {}, True),
        ({"x-match": "any"}, {}, False),
        ({"x-match": "any-with-x"}, {}, False),
        ({}, {"a": 1}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": 1, "b": 2, "x-match": "any"}, {"a": 1}, True),
        ({"x-match": "any", "a": None}, {"a": 1}, True),
        ({"a": None}, {"a": None}, True),
        ({"a": None}, {}, False),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": Item("b", 1)}, {"a": Item("l", 1)}, True),
        ({"a": 1.0}, {"a": 1}, True),
        ({"a": True}, {"a": 1}, False),
        ({"a": Item("x", b"q")}, {"a": "q"}, True),
        ({"a": Item("T", 5)}, {"a": 5}, True),
        ({"a": {"b": 1}}, {"a": {"b": 1}}, True),
        ({"a": [1]}, {"a": [1]}, True),
        ({"a": [1]}, {"a": [2]}, False),
        ({"x-match": "any", "x-foo": 1}, {"x-foo": 1}, False),
        ({"x-match": "all", "x-foo": 1}, {}, True),
        ({"x-match": "all-with-x", "x-foo": 1}, {}, False),
        ({"x-match": "any-with-x", "x-foo": 1}, {"x-foo": 1}, True),
    ],
)
def test_matches(arguments: dict[str, Any], headers: dict[str, Any] | None, expected: bool) -> None:
    client = connected()
    client.declare("q")
    client.bind("q", "amq.headers", **arguments)
    client.publish("amq.headers", "", **({} if headers is None else {"headers": headers}))
    assert client.depth("q") == expected
