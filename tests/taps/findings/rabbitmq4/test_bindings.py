"""Bindings of headers exchanges with floats."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import ExchangeBind, ExchangeBindOk, QueueBind, QueueBindOk
from amqproxy.amqp091.wire import Table
from tests.taps.findings.rabbitmq4.used import advice, connected


@pytest.mark.parametrize(
    ("arguments", "is_found"),
    [
        ({"x-match": "all", "level": 1.0}, True),
        ({"x-match": "all", "level": 1.5}, False),
        ({"x-match": "all", "level": 1}, False),
        ({"level": 1.0}, False),
    ],
)
def test_a_binding(arguments: dict[str, object], is_found: bool) -> None:
    inspected = connected()
    inspected.client(QueueBind(queue="q", exchange="h", arguments=Table(arguments)))
    inspected.server(QueueBindOk())
    inspected.client(ExchangeBind(destination="d", source="h", arguments=Table(arguments)))
    inspected.server(ExchangeBindOk())
    assert len({text for _, text in advice(inspected)}) == is_found
    assert all("a binding of exchange h with level = 1.0 is made" in text for _, text in advice(inspected))
