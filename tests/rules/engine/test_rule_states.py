"""What rules remember of a session: it ends with the session, and outlives a reload."""

from __future__ import annotations

from amqproxy.amqp091.methods import BasicDeliver, BasicPublish
from amqproxy.amqp091.transitions import SERVER
from amqproxy.rules.access.allow import Allow
from amqproxy.rules.context import Client, CommandContext
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.engine.rule_states import RuleStates
from amqproxy.rules.matching.match import Match
from amqproxy.rules.rule import Rule, RuleState, SessionMemory, Stateful
from amqproxy.rules.verdict import Verdict
from tests.rules.commands import command, evaluated
from tests.rules.sample_rules import Deny, EverySecond, Rename

GUEST = Client(user="guest", vhost="/", address="10.0.0.7", properties={"product": "pika"})


def test_a_reload_keeps_what_is_remembered_and_counted() -> None:
    every = EverySecond(name="every")
    before = RuleSet([every, Deny(name="gone", match=Match(exchange="gone"))])
    evaluator = before.evaluator(GUEST)
    sent = command(BasicPublish(exchange="a"))
    assert evaluated(evaluator, sent).command is sent
    after = before.replaced([Allow(name="new", match=Match(exchange="b")), every])
    evaluator = evaluator.moved(after)
    assert evaluated(evaluator, sent).command is None, "it is the second time"
    assert after.counts()["every"].hits == 1
    assert evaluated(evaluator, command(BasicPublish(exchange="gone"))).command is not None


def test_names_still_come_back_when_the_rule_that_changed_them_is_gone() -> None:
    rename = Rename(name="rename", match=Match(method="basic.publish", exchange="old"), to="new")
    evaluator = RuleSet([rename]).evaluator(GUEST)
    evaluated(evaluator, command(BasicPublish(exchange="old")))
    evaluator = evaluator.moved(evaluator.ruleset.replaced([]))
    verdict = evaluated(evaluator, command(BasicDeliver(exchange="new")), SERVER)
    assert verdict.command is not None
    assert verdict.command.method.exchange == "old"
    assert evaluated(evaluator, command(BasicPublish(exchange="old"))).command is not None


class ClumsyMemory(SessionMemory):
    def channel_closed(self, number: int) -> None:
        raise LookupError

    def session_over(self) -> None:
        raise LookupError


class Clumsy(Rule, Stateful, frozen=True, tag="clumsy"):
    def begin_session(self) -> ClumsyMemory:
        return ClumsyMemory()

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        return Verdict(command=context.command)


def test_a_rule_that_fails_as_something_ends_is_counted() -> None:
    rules = RuleSet([Clumsy(name="clumsy"), EverySecond(name="count")])
    evaluator = rules.evaluator(GUEST)
    evaluated(evaluator, command(BasicPublish()))
    evaluator.channel_closed(1)
    evaluator.session_over()
    assert rules.counts()["clumsy"].errors == 2


def test_a_state_is_made_when_it_is_first_asked_for() -> None:
    (case,) = RuleSet([EverySecond(name="count")]).cases
    states = RuleStates()
    assert states.of(case) is states.of(case)
    assert RuleStates().of(case) is not states.of(case)


def test_states_are_handed_over_to_rules_that_continue() -> None:
    before = RuleSet([EverySecond(name="kept"), EverySecond(name="gone"), Rename(name="restoring", to="new")])
    after = before.replaced([EverySecond(name="added"), EverySecond(name="kept")])
    states = RuleStates()
    old = [states.of(case) for case in before.cases]
    states.started.add(before.cases[0])
    handed, retired = states.handed_over(before.cases, after.cases)
    added, kept = after.cases
    assert handed.of(kept) is old[0]
    assert handed.of(added) not in old
    assert handed.started == {kept}
    assert retired == (before.cases[2],), "names that it has changed are still to be restored"
    assert handed.of(retired[0]) is old[2]


def test_a_rule_that_was_never_asked_has_nothing_to_restore() -> None:
    before = RuleSet([Rename(name="restoring", to="new")])
    assert RuleStates().handed_over(before.cases, ())[1] == ()
