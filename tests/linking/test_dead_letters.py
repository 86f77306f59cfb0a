"""Histories of dead letters, from the headers of RabbitMQ 3.10."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.properties import NO_PROPERTIES, Properties
from amqproxy.amqp091.wire import Table
from amqproxy.linking.dead_letters import DeadLetter, dead_letter, returns_to_queue


def _with(**headers: Any) -> Properties:
    return Properties(headers=Table({name.replace("_", "-"): value for name, value in headers.items()}))


def _death(queue: str, exchange: str, routing_key: str, *, count: int = 1, reason: str = "rejected") -> dict[str, Any]:
    return {"count": count, "reason": reason, "queue": queue, "exchange": exchange, "routing-keys": [routing_key]}


def test_a_dead_letter_of_two_queues() -> None:
    properties = _with(
        x_death=[_death("q2", "dlx", "q1", reason="expired"), _death("q1", "x", "k", count=3)],
        x_first_death_queue="q1",
        x_first_death_reason="rejected",
    )
    assert dead_letter(properties) == DeadLetter(4, "q2", "expired", (("x", "k"), ("dlx", "q1")))


def test_the_first_death_is_not_always_the_last_entry() -> None:
    properties = _with(
        x_death=[_death("q1", "x", "k", count=2), _death("q2", "dlx", "q1")],
        x_first_death_queue="q1",
        x_first_death_reason="rejected",
    )
    found = dead_letter(properties)
    assert found is not None
    assert found.routes[0] == ("x", "k")


def test_other_messages_have_none() -> None:
    assert dead_letter(NO_PROPERTIES) is None
    assert dead_letter(_with(x_death="made up")) is None
    assert dead_letter(_with(x_death=[])) is None
    assert dead_letter(_with(x_death=[{"count": "many", "routing-keys": "k"}])) == DeadLetter(0, "", "", ())


def test_returns_to_a_quorum_queue() -> None:
    assert returns_to_queue(NO_PROPERTIES) == 0
    assert returns_to_queue(_with(x_delivery_count=2)) == 2
    assert returns_to_queue(_with(x_delivery_count="many")) == 0
