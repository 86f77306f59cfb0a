"""Who shares a limit."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicConsume, BasicPublish, Method
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.rules.context import Client, CommandContext
from amqproxy.rules.limits.group import Group, Trait, grouping

ALICE = Client(session=7, user="alice", vhost="/", address="10.0.0.1")


@pytest.mark.parametrize(
    ("per", "method", "group"),
    [
        ("all", BasicPublish(), None),
        ("connection", BasicPublish(), 7),
        ("channel", BasicPublish(), (7, 3)),
        ("user", BasicPublish(), "alice"),
        ("vhost", BasicPublish(), "/"),
        ("address", BasicPublish(), "10.0.0.1"),
        ("exchange", BasicPublish(exchange="x"), ("/", "x")),
        ("exchange", BasicConsume(queue="q"), ("/", "")),
        ("queue", BasicConsume(queue="q"), ("/", "q")),
        (("user", "exchange"), BasicPublish(exchange="x"), ("alice", ("/", "x"))),
    ],
)
def test_groups(per: Trait | tuple[Trait, ...], method: Method, group: Group) -> None:
    assert grouping(per)(CommandContext(sender=CLIENT, command=Command(3, method), client=ALICE)) == group
