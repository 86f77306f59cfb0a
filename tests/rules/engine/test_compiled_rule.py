"""When a rule can be asked, and of what."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicPublish
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.rules.access.allow import Allow
from amqproxy.rules.access.refuse import Refuse
from amqproxy.rules.context import Client, CommandContext
from amqproxy.rules.engine.compiled_rule import CompiledRule
from amqproxy.rules.engine.outcome import OutcomeCounts
from amqproxy.rules.faults.command_faults import DropFault, ReorderFault
from amqproxy.rules.faults.fault import Fault
from amqproxy.rules.matching.clock_time import ClockTime
from amqproxy.rules.matching.filters import compiled
from amqproxy.rules.matching.match import Match, Sizes
from amqproxy.rules.observing.hold import Hold
from amqproxy.rules.rule import Rule
from amqproxy.rules.verdict import Stage
from tests.rules.commands import command
from tests.rules.sample_rules import EverySecond, Rename


def case(rule: Rule) -> CompiledRule:
    conditions = rule.match.conditions()
    if rule.when:
        conditions = (*conditions, compiled(rule.when).condition)
    return CompiledRule(rule, 0, conditions, OutcomeCounts())


@pytest.mark.parametrize(
    ("rule", "is_cacheable", "stage"),
    [
        (Allow(name="a"), True, Stage.METHOD),
        (Allow(name="a", match=Match(exchange="e", user="u")), True, Stage.METHOD),
        (Allow(name="a", when="exchange == 'e' && user == 'u'"), True, Stage.METHOD),
        (Allow(name="a", match=Match(size=Sizes(min=1))), False, Stage.HEADER),
        (Allow(name="a", match=Match(body="x")), False, Stage.BODY),
        (Allow(name="a", when="json.x == 1"), False, Stage.BODY),
        (Allow(name="a", match=Match(time=ClockTime())), False, Stage.METHOD),
        (Allow(name="a", match=Match(sample=1)), False, Stage.METHOD),
        (Allow(name="a", when="channel.consumers > 1"), False, Stage.METHOD),
        (EverySecond(name="a"), False, Stage.METHOD),
    ],
)
def test_when_it_can_be_asked(rule: Rule, is_cacheable: bool, stage: Stage) -> None:
    assert (case(rule).is_cacheable, case(rule).stage) == (is_cacheable, stage)


def test_what_it_may_be_asked_about() -> None:
    publishes = case(Allow(name="a", match=Match(exchange="e", sender="client")))
    assert publishes.may_ask_about(CLIENT, "basic.publish")
    assert not publishes.may_ask_about(SERVER, "basic.deliver")
    assert not publishes.may_ask_about(CLIENT, "basic.deliver"), "a client never sends it"
    assert not publishes.may_ask_about(CLIENT, "basic.ack"), "it has no exchange"
    assert case(Allow(name="a")).may_ask_about(SERVER, "heartbeat")


def test_what_it_may_restore() -> None:
    assert case(Rename(name="a", to="b")).may_restore(SERVER, "basic.deliver")
    assert not case(Rename(name="a", to="b")).may_restore(CLIENT, "basic.publish")
    assert not case(Rename(name="a", to="b", mode="shadow")).may_restore(SERVER, "basic.deliver")


def test_what_it_reads_of_the_channel() -> None:
    assert case(Allow(name="a", when="channel.unacked > 1")).reads_unacked
    assert not case(Allow(name="a", when="channel.consumers > 1")).reads_unacked


@pytest.mark.parametrize(
    ("rule", "drops"),
    [
        (Allow(name="a"), False),
        (Refuse(name="a"), True),
        (Refuse(name="a", way="close"), False),
        (Refuse(name="a", mode="shadow"), False),
        (Refuse(name="a", match=Match(method="basic.publish")), False),
        (Refuse(name="a", match=Match(sender="client")), False),
        (Fault(name="a", fault=DropFault(), match=Match(method="basic.nack")), True),
        (Fault(name="a", fault=DropFault(), match=Match(method="basic.deliver")), False),
        (Fault(name="a", fault=ReorderFault()), False),
        (Hold(name="a"), True),
        (Hold(name="a", match=Match(sender="client")), False),
    ],
)
def test_whether_it_may_drop_a_confirm_of_the_brokers(rule: Rule, drops: bool) -> None:
    assert case(rule).drops_confirms is drops


def test_conditions_on_the_method_and_on_the_rest() -> None:
    ready = case(Allow(name="a", match=Match(user="u", exchange="e", size=Sizes(min=1))))
    small = CommandContext(sender=CLIENT, command=command(BasicPublish(exchange="e")), client=Client())
    assert ready.method_conditions_hold(small)
    assert not ready.other_conditions_hold(small)
    assert ready.is_late
    assert not case(Allow(name="a", match=Match(address="10.0.0.1"))).is_late
