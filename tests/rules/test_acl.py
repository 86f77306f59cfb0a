"""A list of who may do what decides as its lines are read aloud."""

from __future__ import annotations

import msgspec
import pytest

from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicGet,
    BasicPublish,
    BasicQos,
    ConnectionOpen,
    ExchangeBind,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
)
from amqproxy.rules.acl import AccessList
from amqproxy.rules.judge import RuleSet
from amqproxy.rules.match import Match
from amqproxy.rules.seen import Client
from tests.rules.test_judge import Rename, command, judged

LINES = """
allow user "orders-*" to publish exchange "orders.*" routing_key "topic:order.#"
allow user "orders-*" address "10.0.0.0/8" to consume, get queue "orders.*", "replies"
deny anyone to bind exchange "secret"       # also as what another exchange is bound to
allow anyone to bind exchange "orders.*"
allow user "ops" to any
allow anyone to connect vhost "/"
otherwise deny
"""
OPS = Client(user="ops", vhost="/")
ORDERS = Client(user="orders-1", vhost="/", address="10.1.2.3")
ELSEWHERE = Client(user="orders-1", vhost="/", address="192.168.0.1")
GUEST = Client(user="guest", vhost="/")
PROD = Client(user="guest", vhost="prod")


@pytest.mark.parametrize(
    ("client", "method", "does_pass"),
    [
        (ORDERS, BasicPublish(exchange="orders.eu", routing_key="order.new"), True),
        (ORDERS, BasicPublish(exchange="orders.eu", routing_key="invoice.new"), False),
        (ORDERS, BasicPublish(exchange="", routing_key="order.new"), False),
        (GUEST, BasicPublish(exchange="orders.eu", routing_key="order.new"), False),
        (ORDERS, BasicConsume(queue="orders.eu"), True),
        (ORDERS, BasicGet(queue="replies"), True),
        (ORDERS, BasicConsume(queue="others"), False),
        (ELSEWHERE, BasicConsume(queue="orders.eu"), False),
        (GUEST, QueueBind(queue="q", exchange="orders.eu"), True),
        (GUEST, QueueBind(queue="q", exchange="secret"), False),
        (GUEST, ExchangeBind(source="orders.eu", destination="orders.de"), True),
        (GUEST, ExchangeBind(source="orders.eu", destination="elsewhere"), False),
        (OPS, ExchangeBind(source="orders.eu", destination="elsewhere"), True),
        (OPS, ExchangeBind(source="orders.eu", destination="secret"), False),
        (OPS, ExchangeBind(source="secret", destination="orders.eu"), False),
        (OPS, ExchangeDeclare(exchange="x"), True),
        (OPS, QueuePurge(queue="x"), True),
        (GUEST, QueueDeclare(queue="x"), False),
        (GUEST, QueueDelete(queue="x"), False),
        (GUEST, ConnectionOpen(), True),
        (PROD, ConnectionOpen(virtual_host="prod"), False),
        (GUEST, BasicQos(prefetch_count=1), True),
    ],
)
def test_lines_decide_in_order(client: Client, method: Method, does_pass: bool) -> None:
    judge = RuleSet([AccessList(name="list", lines=LINES)]).judge(client)
    channel = 0 if isinstance(method, ConnectionOpen) else 1
    for _ in range(2):
        verdict = judged(judge, command(method, channel))
        assert (verdict.command is not None) is does_pass
        assert (verdict.close is None) is does_pass


def test_what_is_allowed_goes_on_to_the_next_rule() -> None:
    rules = RuleSet(
        [
            AccessList(name="list", lines='allow anyone to publish exchange "old"; otherwise deny'),
            Rename(name="rename", match=Match(method="basic.publish", exchange="old"), to="new"),
        ]
    )
    judge = rules.judge(GUEST)
    verdict = judged(judge, command(BasicPublish(exchange="old")))
    assert verdict.command is not None
    assert verdict.command.method.exchange == "new"
    refused = judged(judge, command(BasicPublish(exchange="else")))
    assert refused.close is not None
    assert refused.close.code == 403
    assert refused.marks == ("list, line 1b",)
    assert rules.counts()["list"].hits == 2


def test_the_list_is_only_for_those_that_its_match_is_about() -> None:
    judge = RuleSet(
        [AccessList(name="list", match=Match(vhost="prod"), when="routing_key != 'free'", lines="otherwise deny")]
    )
    said, free = command(BasicPublish(exchange="x")), command(BasicPublish(exchange="x", routing_key="free"))
    assert judged(judge.judge(GUEST), said).command is said
    assert judged(judge.judge(PROD), said).command is None
    assert judged(judge.judge(PROD), free).command is free


def test_in_shadow_each_command_counts_for_its_line_alone() -> None:
    rules = RuleSet([AccessList(name="list", mode="shadow", lines=LINES)])
    judge = rules.judge(ORDERS)
    said = command(BasicPublish(exchange="orders.eu", routing_key="order.new"))
    assert judged(judge, said).marks == ()
    verdict = judged(judge, command(BasicPublish(exchange="secret")))
    assert verdict.command is not None
    assert verdict.marks == ("list, line 8 (shadow)",)
    assert rules.counts()["list"].shadow_hits == 2


def test_the_refusal_can_be_worded() -> None:
    judge = RuleSet([AccessList(name="list", lines="otherwise deny", code=406, text="not here")]).judge(GUEST)
    close = judged(judge, command(QueueDeclare(queue="q"))).close
    assert close is not None
    assert (close.code, close.text) == (406, "not here")


def test_what_is_wrong_is_said_with_its_key() -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert({"action": "acl", "name": "list", "lines": "otherwise denied"}, AccessList)
    assert str(raised.value).startswith(".lines: one of allow, deny is wanted here: did you mean `deny`?")
