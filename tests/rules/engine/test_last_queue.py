"""A queue that is left out is the one that its channel has declared last."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicGet,
    BasicPublish,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.amqp091.wire import Table
from amqproxy.rules.access.allow import Allow
from amqproxy.rules.access.refuse import Refuse
from amqproxy.rules.engine.evaluator import RuleEvaluator, RuleSet
from amqproxy.rules.matching.match import Match
from amqproxy.rules.rule import Rule
from tests.rules.commands import command, evaluated
from tests.rules.scene import GUEST, rule

SECRET = Refuse(name="no", match=Match(queue="secret", method="!queue.declare"))


def evaluator(*rules: Rule) -> RuleEvaluator:
    return RuleSet(rules or (SECRET,)).evaluator(GUEST)


def goes_on(evaluator: RuleEvaluator, method: Method, channel: int = 1) -> Method | None:
    sent = command(method, channel)
    left = evaluated(evaluator, sent).command
    assert left is None or left.method != method or left is sent, "what is not changed goes on as it came"
    return None if left is None else left.method


def answers(evaluator: RuleEvaluator, name: str, channel: int = 1) -> None:
    sent = command(QueueDeclareOk(name), channel)
    assert evaluated(evaluator, sent, SERVER).command is sent


@pytest.mark.parametrize(
    "method",
    [
        BasicConsume(),
        BasicGet(),
        QueuePurge(),
        QueueDelete(),
        QueueBind(exchange="e", routing_key="k"),
        QueueUnbind(exchange="e", routing_key="k"),
    ],
)
def test_rules_are_asked_about_the_queue_that_is_meant(method: Method) -> None:
    asked = evaluator()
    assert goes_on(asked, method) == method, "none was declared"
    for declare in (QueueDeclare(queue="secret"), QueueDeclare(queue="sec\nret", passive=True)):
        goes_on(asked, QueueDeclare(queue="open"))
        assert goes_on(asked, method) == method
        goes_on(asked, declare)
        assert goes_on(asked, method) is None
        assert goes_on(asked, method, channel=2) == method, "each channel has its own"
    asked.channel_closed(1)
    assert goes_on(asked, method) == method


def test_the_name_that_the_broker_made_is_taken_from_its_reply() -> None:
    asked = evaluator(Allow(name="ours", match=Match(queue="amq.gen-a*")), Refuse(name="no", match=Match(queue="*")))
    goes_on(asked, QueueDeclare(queue="x"))
    allowed = RuleSet([Allow(name="d", match=Match(method="queue.declare")), *asked.ruleset.rules]).evaluator(GUEST)
    goes_on(allowed, QueueDeclare())
    assert goes_on(allowed, BasicGet()) is None, "it is not known yet"
    answers(allowed, "amq.gen-abc")
    assert goes_on(allowed, BasicGet()) == BasicGet()
    goes_on(allowed, QueueDeclare(queue="y"))
    answers(allowed, "amq.gen-abc")
    assert goes_on(allowed, BasicGet()) is None, "that was the answer to another"


def test_what_is_refused_was_never_declared() -> None:
    asked = evaluator(Refuse(name="no", match=Match(queue="secret")))
    goes_on(asked, QueueDeclare(queue="open"))
    assert goes_on(asked, QueueDeclare(queue="secret")) is None
    assert goes_on(asked, BasicGet()) == BasicGet()


def test_a_new_name_is_written_out_and_an_old_one_stays_left_out() -> None:
    prefixed = rule('action = "rewrite"\nname = "p"\nqueue.prefix = "a."')
    asked = evaluator(prefixed)
    assert goes_on(asked, QueueDeclare(queue="q")) == QueueDeclare(queue="a.q")
    assert goes_on(asked, BasicGet()) == BasicGet(queue="a.q")
    assert goes_on(asked, QueueBind(exchange="e")) == QueueBind(exchange="e", queue="a.q", routing_key="q")
    assert goes_on(asked, QueueBind(exchange="e", routing_key="k")) == QueueBind(
        exchange="e", queue="a.q", routing_key="k"
    )
    edited = evaluator(
        rule('action = "rewrite"\nname = "p"\nmatch.method = "queue.bind"\narguments.set = {a = "{queue}"}')
    )
    goes_on(edited, QueueDeclare(queue="q"))
    bind = QueueBind(exchange="e")
    assert goes_on(edited, bind) == replace(bind, arguments=Table({"a": "q"}))


def test_it_outlives_a_reload_and_is_asked_for_only_where_a_rule_could_care() -> None:
    asked = evaluator()
    goes_on(asked, QueueDeclare(queue="secret"))
    moved = asked.moved(RuleSet([SECRET]))
    assert goes_on(moved, BasicGet()) is None
    assert asked.wants(CLIENT)[QueueDeclare.index] == asked.wants(SERVER)[QueueDeclareOk.index] == 1
    other = evaluator(Refuse(name="no", match=Match(method="basic.publish")))
    assert other.wants(CLIENT)[QueueDeclare.index] == other.wants(SERVER)[QueueDeclareOk.index] == 0
    assert goes_on(other, BasicPublish()) is None
