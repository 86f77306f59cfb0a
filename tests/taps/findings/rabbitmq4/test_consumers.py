"""Consumers that a later RabbitMQ treats differently."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicAck, BasicCancel, BasicCancelOk, BasicConsume, BasicConsumeOk, BasicDeliver
from amqproxy.amqp091.wire import Table
from tests.taps.findings.inspected import Inspected
from tests.taps.findings.rabbitmq4.used import advice, connected, declare


@pytest.mark.parametrize("value", [True, False])
def test_failover(value: bool) -> None:
    inspected = connected()
    inspected.client(BasicConsume(queue="q", arguments=Table({"x-cancel-on-ha-failover": value})))
    inspected.server(BasicConsumeOk("c"))
    assert [kind for kind, _ in advice(inspected)] == (["ha-failover"] if value else [])


def cancelled(inspected: Inspected, *, acked: bool = False) -> list[str]:
    inspected.consuming()
    inspected.server(BasicDeliver("c", 1, False, "", "q"))
    if acked:
        inspected.client(BasicAck(1))
    inspected.client(BasicCancel("c"))
    inspected.server(BasicCancelOk("c"))
    return [kind for kind, _ in advice(inspected)]


def test_a_single_active_consumer_that_leaves_work_open() -> None:
    inspected = connected()
    declare(inspected, x_single_active_consumer=True)
    assert cancelled(inspected) == ["single-active"]


def test_a_single_active_consumer_that_has_finished() -> None:
    inspected = connected()
    declare(inspected, x_single_active_consumer=True)
    assert cancelled(inspected, acked=True) == []


def test_a_consumer_among_others() -> None:
    inspected = connected()
    declare(inspected)
    assert cancelled(inspected) == []
