"""What becomes of a command when a rule fails or makes what cannot be sent."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.methods import BasicPublish, QueueDeclare
from amqproxy.rules.context import Client, CommandContext
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.rule import Rule, RuleState
from amqproxy.rules.verdict import Close, Verdict
from tests.rules.commands import command, evaluated
from tests.rules.sample_rules import Deny, Raising, Rename
from tests.rules.scene import from_client, rule

GUEST = Client(user="guest", vhost="/", address="10.0.0.7", properties={"product": "pika"})


def test_a_rule_that_raises_refuses() -> None:
    rules = RuleSet([Raising(name="odd")])
    evaluator = rules.evaluator(GUEST)
    verdict = evaluated(evaluator, command(QueueDeclare(queue="q")))
    assert verdict.command is None
    assert verdict.close == Close(Scope.CHANNEL, 541, "INTERNAL_ERROR - rule 'odd' failed")
    assert rules.counts()["odd"].errors == 1


def test_shadow_counts_and_changes_nothing() -> None:
    rules = RuleSet([Deny(name="deny", mode="shadow"), Rename(name="rename", mode="shadow", to="new")])
    sent = command(BasicPublish(exchange="old"))
    verdict = evaluated(rules.evaluator(GUEST), sent)
    assert verdict.command is sent
    assert verdict.marks == ("deny (shadow)", "rename (shadow)")
    assert [counts.shadow_hits for counts in rules.counts().values()] == [1, 1]
    assert [counts.hits for counts in rules.counts().values()] == [0, 0]


class RaisingOpen(Raising, frozen=True, tag="raising-open"):
    fails_open = True


def test_a_rule_that_only_looks_fails_open() -> None:
    rules = RuleSet([RaisingOpen(name="look"), Rename(name="rename", to="b")])
    sent = command(BasicPublish(exchange="a"))
    verdict = evaluated(rules.evaluator(GUEST), sent)
    assert verdict.close is None
    assert verdict.command is not None
    assert verdict.command.method.exchange == "b"
    assert rules.counts()["look"].errors == 1
    [(name, how)] = verdict.failures
    assert name == "look"
    assert how.startswith("rule 'look' failed: KeyError in sample_rules.py, line ")


class Careless(Rule, frozen=True, tag="careless"):
    makes_unchecked_values = True

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        return Verdict(command=context.command.altered(BasicPublish(exchange="x" * 256)))


def test_what_cannot_be_sent_is_a_failure() -> None:
    rules = RuleSet([Careless(name="careless")])
    verdict = evaluated(rules.evaluator(GUEST), command(BasicPublish()))
    assert verdict.close is not None
    assert verdict.close.code == 541
    assert rules.counts()["careless"].errors == 1


@pytest.mark.parametrize(
    "text",
    [
        'action = "refuse"\nwhen = "body.contains(\'a\')"',
        'action = "refuse"\nwhen = "json.a == 1"',
        'action = "rewrite"\nbody.json_patch = [{op = "add", path = "/b", value = 1}]',
        'action = "rewrite"\nheaders.set = {x = "{body}"}',
    ],
)
def test_a_body_too_large_to_be_looked_into_is_refused_as_rabbitmq_refuses_large_ones(text: str) -> None:
    evaluator = RuleSet([rule(text)]).evaluator(GUEST)
    small = from_client(BasicPublish(exchange="e"), body=b"{}", body_limit=10)
    assert evaluator.evaluate(small).close is None
    verdict = evaluator.evaluate(from_client(BasicPublish(exchange="e"), body=b'{"a": 12345}', body_limit=10))
    assert verdict.close is not None
    assert (verdict.close.code, verdict.close.scope) == (406, Scope.CHANNEL)
    assert verdict.close.text == "PRECONDITION_FAILED - message size 12 is larger than the 10 bytes that rules can read"


def test_a_rule_that_does_not_look_into_a_body_does_not_mind_its_size() -> None:
    evaluator = RuleSet([rule('action = "refuse"\nwhen = "size > 100 && body.contains(\'a\')"')]).evaluator(GUEST)
    hold = RuleSet([rule('action = "hold"')]).evaluator(GUEST)
    context = from_client(BasicPublish(exchange="e"), body=b"12 bytes now", body_limit=10)
    assert hold.evaluate(context).hold is not None
    assert evaluator.evaluate(context).close is not None  # an expression reads all that it names


def test_a_rule_with_a_long_name_fails_in_as_much_as_a_reply_text_holds() -> None:
    verdict = evaluated(RuleSet([Raising(name="é" * 300)]).evaluator(GUEST), command(BasicPublish()))
    assert verdict.close is not None
    assert verdict.close.text.startswith("INTERNAL_ERROR - rule 'é")
    assert len(verdict.close.text.encode()) <= 255
