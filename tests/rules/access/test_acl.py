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
from amqproxy.amqp091.properties import NO_PROPERTIES, Properties
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.amqp091.wire import Array, Field, Item, Table
from amqproxy.rules.access.acl import MAX_CACHED, AccessList
from amqproxy.rules.context import ChannelInfo, Client, CommandContext
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.matching.match import Match
from amqproxy.rules.verdict import Stage
from tests.rules.commands import command, evaluated
from tests.rules.sample_rules import Rename

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
        (GUEST, ExchangeBind(source="orders.eu", destination="orders.de"), False),  # whose messages go there
        (GUEST, ExchangeBind(source="orders.eu", destination="elsewhere"), False),
        (OPS, ExchangeBind(source="orders.eu", destination="elsewhere"), True),
        (OPS, ExchangeBind(source="orders.eu", destination="secret"), False),
        (OPS, ExchangeBind(source="secret", destination="orders.eu"), False),
        (OPS, ExchangeDeclare(exchange="x"), True),
        (OPS, QueuePurge(queue="x"), True),
        (ORDERS, BasicGet(queue="orders.\neu"), True),
        (ORDERS, BasicGet(queue="replies\n"), False),  # as a broker may have it that keeps line breaks
        (GUEST, QueueDeclare(queue="x"), False),
        (GUEST, QueueDelete(queue="x"), False),
        (GUEST, ConnectionOpen(), True),
        (PROD, ConnectionOpen(virtual_host="prod"), False),
        (GUEST, BasicQos(prefetch_count=1), True),
    ],
)
def test_lines_decide_in_order(client: Client, method: Method, does_pass: bool) -> None:
    evaluator = RuleSet([AccessList(name="list", lines=LINES)]).evaluator(client)
    channel = 0 if isinstance(method, ConnectionOpen) else 1
    for _ in range(2):
        verdict = evaluated(evaluator, command(method, channel))
        assert (verdict.command is not None) is does_pass
        assert (verdict.close is None) is does_pass


COPIES = Properties(headers=Table({"CC": ["order.a"], "BCC": ["secret"]}))
TWINS = Properties(headers=Table([Field("CC", "A", Array(["order.a"])), Field("CC", "A", Array(["secret"]))]))
OCTETS = Properties(headers=Table([Field("BCC", "A", Array([Item("x", b"secret")]))]))
WRITERS = """
deny anyone to publish exchange "secret"
deny anyone to publish queue "secret"
deny anyone to publish exchange "half" routing_key "secret"
allow anyone to any
"""


def dead(exchange: str, key: str | None = None) -> Table:
    return Table({"x-dead-letter-exchange": exchange} | ({} if key is None else {"x-dead-letter-routing-key": key}))


@pytest.mark.parametrize(
    ("method", "properties", "does_pass"),
    [
        (BasicPublish(exchange="e", routing_key="secret"), COPIES, True),
        (BasicPublish(exchange="secret", routing_key="k"), NO_PROPERTIES, False),
        (BasicPublish(exchange="half", routing_key="k"), NO_PROPERTIES, True),
        (BasicPublish(exchange="half", routing_key="k"), COPIES, False),
        (BasicPublish(exchange="half", routing_key="k"), TWINS, False),
        (BasicPublish(exchange="half", routing_key="k"), OCTETS, False),
        (BasicPublish(exchange="", routing_key="q"), NO_PROPERTIES, True),
        (BasicPublish(exchange="", routing_key="secret"), NO_PROPERTIES, False),
        (BasicPublish(exchange="", routing_key="q"), COPIES, False),
        (BasicPublish(exchange="", routing_key="q"), TWINS, False),
        (BasicPublish(exchange="e", routing_key="k"), Properties(reply_to="secret"), False),
        (BasicPublish(exchange="e", routing_key="k"), Properties(reply_to="mine"), True),
        (QueueDeclare(queue="q", arguments=dead("e")), None, True),
        (QueueDeclare(queue="q", arguments=dead("secret")), None, False),
        (QueueDeclare(queue="q", arguments=dead("", "q2")), None, True),
        (QueueDeclare(queue="q", arguments=dead("", "secret")), None, False),
        (QueueDeclare(queue="q", arguments=dead("")), None, False),  # whichever key a message has
        (QueueDeclare(queue="q", arguments=dead("half")), None, False),
        (QueueDeclare(queue="q", arguments=dead("half", "k")), None, True),
        (QueueDeclare(queue="q", arguments=Table([*dead("e").fields, *dead("secret").fields])), None, False),
        (QueueDeclare(queue="q", passive=True, arguments=dead("secret")), None, True),
        (ExchangeDeclare(exchange="e", arguments=Table({"alternate-exchange": "f"})), None, True),
        (ExchangeDeclare(exchange="e", arguments=Table({"alternate-exchange": "secret"})), None, False),
        (ExchangeDeclare(exchange="e", arguments=Table({"alternate-exchange": "half"})), None, False),
        (ExchangeDeclare(exchange="e", arguments=Table({"alternate-exchange": ""})), None, False),
        (ExchangeBind(source="e", destination="f"), None, True),
        (ExchangeBind(source="e", destination="secret"), None, False),
        (ExchangeBind(source="e", destination="sec\nret"), None, False),
        (ExchangeBind(source="e", destination="half", routing_key="k"), None, False),
        (QueueBind(queue="q", exchange="e", routing_key="k"), None, True),
        (QueueBind(queue="secret", exchange="e", routing_key="k"), None, False),
        (QueueBind(queue="secret\r", exchange="e", routing_key="k"), None, False),
    ],
)
def test_nothing_is_delivered_where_no_client_may_publish(
    method: Method, properties: Properties | None, does_pass: bool
) -> None:
    evaluator = RuleSet([AccessList(name="list", lines=WRITERS)]).evaluator(GUEST)
    sent = command(method) if properties is None else command(method, 1, properties, b"body")
    for _ in range(2):
        assert (evaluated(evaluator, sent).command is sent) is does_pass


READER = """
allow user "guest" to consume, get queue "mine"
allow user "guest" to declare exchange "e"
otherwise deny
"""


@pytest.mark.parametrize(
    ("method", "does_pass"),
    [
        (QueueDeclare(queue="mine", passive=True), True),
        (QueueDeclare(queue="other", passive=True), True),
        (ExchangeDeclare(exchange="e", passive=True), True),
        (QueueDeclare(queue="mine"), False),
        (BasicConsume(queue="mine"), True),
        (BasicConsume(queue="other"), False),
        (BasicConsume(queue="amq.rabbitmq.reply-to"), False),
        (ExchangeDeclare(exchange="e"), True),
        (ExchangeDeclare(exchange="e", arguments=Table({"alternate-exchange": "e"})), False),
    ],
)
def test_who_only_reads_may_look_whether_it_is_there(method: Method, does_pass: bool) -> None:
    evaluator = RuleSet([AccessList(name="list", lines=READER)]).evaluator(GUEST)
    assert (evaluated(evaluator, command(method)).command is not None) is does_pass


def test_dead_letters_take_what_rabbitmq_asks_for() -> None:
    """To declare the queue, to consume from it, and to publish there."""
    sent = command(QueueDeclare(queue="q", arguments=dead("dead", "k")))
    rights = ["declare queue", "consume queue", "publish exchange"]
    for lacking in (None, *rights):
        lines = [
            f'allow anyone to {each} "{"dead" if "publish" in each else "q"}"' for each in rights if each != lacking
        ]
        evaluator = RuleSet([AccessList(name="list", lines="\n".join([*lines, "otherwise deny"]))]).evaluator(GUEST)
        assert (evaluated(evaluator, sent).command is sent) is (lacking is None)


def test_only_lists_that_ask_for_keys_wait_for_the_header_of_a_publish() -> None:
    for lines, stage in (
        ('allow anyone to publish exchange "e"; otherwise deny', Stage.METHOD),
        ('allow anyone to publish exchange "e"; deny anyone to publish exchange "f" routing_key "k"', Stage.METHOD),
        ('deny anyone to publish exchange "f" routing_key "k"; otherwise allow', Stage.HEADER),
        ('allow anyone to publish exchange "e"; deny anyone to publish queue "q"', Stage.HEADER),
    ):
        evaluator = RuleSet([AccessList(name="list", lines=lines)]).evaluator(GUEST)
        sent = command(BasicPublish(exchange="e", routing_key="k"))
        evaluator.stage(CLIENT, sent.frames[0], ChannelInfo())
        known = evaluator._cached_decision(CommandContext(sender=CLIENT, command=sent, client=GUEST))
        found = max([case.stage for case in known.asked], default=Stage.METHOD)
        assert found == stage


def test_what_is_remembered_is_bounded_and_goes_by_all_that_matters() -> None:
    listed = AccessList(name="list", lines='allow user "a" to publish routing_key "0"; otherwise deny')
    sent = command(BasicPublish(exchange="e", routing_key="0"))
    answers = [
        listed.deciding(CommandContext(sender=CLIENT, command=sent, client=Client(user=user))) for user in "abab"
    ]
    assert answers == [0, 1, 0, 1]
    copied = command(BasicPublish(exchange="e", routing_key="0"), 1, COPIES)
    assert listed.deciding(CommandContext(sender=CLIENT, command=copied, client=Client(user="a"))) == 1
    for number in range(MAX_CACHED + 2):
        other = command(BasicPublish(exchange="e", routing_key=str(number)))
        listed.deciding(CommandContext(sender=CLIENT, command=other, client=GUEST))
    assert len(listed._known) <= MAX_CACHED


def test_what_is_allowed_goes_on_to_the_next_rule() -> None:
    rules = RuleSet(
        [
            AccessList(name="list", lines='allow anyone to publish exchange "old"; otherwise deny'),
            Rename(name="rename", match=Match(method="basic.publish", exchange="old"), to="new"),
        ]
    )
    evaluator = rules.evaluator(GUEST)
    verdict = evaluated(evaluator, command(BasicPublish(exchange="old")))
    assert verdict.command is not None
    assert verdict.command.method.exchange == "new"
    refused = evaluated(evaluator, command(BasicPublish(exchange="else")))
    assert refused.close is not None
    assert refused.close.code == 403
    assert refused.marks == ("list, line 1b",)
    assert rules.counts()["list"].hits == 2


def test_the_list_is_only_for_those_that_its_match_is_about() -> None:
    rules = RuleSet(
        [AccessList(name="list", match=Match(vhost="prod"), when="routing_key != 'free'", lines="otherwise deny")]
    )
    sent, free = command(BasicPublish(exchange="x")), command(BasicPublish(exchange="x", routing_key="free"))
    assert evaluated(rules.evaluator(GUEST), sent).command is sent
    assert evaluated(rules.evaluator(PROD), sent).command is None
    assert evaluated(rules.evaluator(PROD), free).command is free


def test_in_shadow_each_command_counts_for_its_line_alone() -> None:
    rules = RuleSet([AccessList(name="list", mode="shadow", lines=LINES)])
    evaluator = rules.evaluator(ORDERS)
    sent = command(BasicPublish(exchange="orders.eu", routing_key="order.new"))
    assert evaluated(evaluator, sent).marks == ()
    verdict = evaluated(evaluator, command(BasicPublish(exchange="secret")))
    assert verdict.command is not None
    assert verdict.marks == ("list, line 8 (shadow)",)
    assert rules.counts()["list"].shadow_hits == 2


def test_the_refusal_can_be_worded() -> None:
    evaluator = RuleSet([AccessList(name="list", lines="otherwise deny", code=406, text="not here")]).evaluator(GUEST)
    close = evaluated(evaluator, command(QueueDeclare(queue="q"))).close
    assert close is not None
    assert (close.code, close.text) == (406, "not here")


def test_errors_have_the_key() -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert({"action": "acl", "name": "list", "lines": "otherwise denied"}, AccessList)
    assert str(raised.value).startswith(".lines: one of allow, deny is wanted here: did you mean `deny`?")
