"""What a rule may be besides a config that decides, and what the engine takes from that when it compiles the rule."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicPublish
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.rules.actions import AnyRule
from amqproxy.rules.context import Client, CommandContext
from amqproxy.rules.engine.compiled_rule import CompiledRule
from amqproxy.rules.engine.outcome import OutcomeCounts
from amqproxy.rules.rule import (
    Cacheable,
    ImpairsStream,
    Reversible,
    Rule,
    RuleState,
    SessionMemory,
    Stateful,
    initial_state,
)
from amqproxy.rules.verdict import Stage

KINDS = {
    "acl": (),
    "allow": (Cacheable,),
    "fault": (Stateful, Reversible, ImpairsStream),
    "hold": (Stateful,),
    "limit": (Cacheable, Stateful, Reversible),
    "log": (),
    "mirror": (),
    "redact": (Cacheable,),
    "refuse": (Cacheable,),
    "rewrite": (Cacheable, Stateful, Reversible),
    "script": (Stateful,),
    "tag": (Cacheable,),
}

COMMAND = CommandContext(sender=CLIENT, command=Command(1, BasicPublish()), client=Client())


@pytest.mark.parametrize("action", get_args(AnyRule), ids=lambda action: str(action.__struct_config__.tag))
def test_each_action_is_of_these_kinds(action: type[Rule]) -> None:
    kinds = (Cacheable, Stateful, Reversible, ImpairsStream)
    assert tuple(kind for kind in kinds if issubclass(action, kind)) == KINDS[action.__struct_config__.tag]


class Everything(Rule, Cacheable, Reversible, ImpairsStream, frozen=True, tag="everything"):
    """A rule of every kind, which overrides nothing."""


class Nothing(Rule, frozen=True, tag="nothing"):
    """A rule of no further kind."""


def test_a_rule_of_every_kind_is_read_from_a_config_like_any_other() -> None:
    rule: Everything | Nothing = msgspec.convert({"action": "everything", "name": "r"}, Everything | Nothing)
    assert rule == Everything(name="r")
    assert Everything.__struct_fields__ == Rule.__struct_fields__
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({"action": "everything", "name": "r", "begin": 1}, Everything | Nothing)


def test_the_defaults_of_each_kind() -> None:
    rule = Everything(name="r")
    state = initial_state(rule)
    assert (state.shared, state.own) == (None, None)
    assert rule.is_constant
    assert rule.allowance(COMMAND, state) is None
    assert rule.continues(Everything(name="r"))
    assert not rule.continues(Nothing(name="r"))
    assert not rule.restores_alike(SERVER)
    assert rule.restoring_needs is Stage.METHOD
    assert rule.acts_at_start
    assert (rule.needs, rule.methods) == (Stage.METHOD, None)
    assert (rule.fails_open, rule.sees_redacted, rule.reads_unacked) == (False, False, False)


def test_methods_that_must_be_overridden() -> None:
    rule, state = Everything(name="r"), RuleState(None, None)
    for call in (
        lambda: rule.decide(COMMAND, state),
        lambda: rule.restores(SERVER),
        lambda: rule.restore(COMMAND, state),
        lambda: rule.start(Client(), state, 0.0, lambda: 0.0),
    ):
        with pytest.raises(NotImplementedError):
            call()


def test_a_memory_need_not_care_what_ends() -> None:
    memory = SessionMemory()
    memory.channel_closed(1)
    memory.session_over()


def compiled(rule: Rule, before: CompiledRule | None = None) -> CompiledRule:
    return CompiledRule(rule, 0, rule.conditions(), OutcomeCounts(), before=before)


def test_a_rule_of_no_further_kind_is_compiled_to_one_that_must_always_be_asked() -> None:
    rule = compiled(Nothing(name="r"))
    state = rule.begin_session()
    assert (state.shared, state.own) == (None, None)
    assert not any(
        (rule.is_cacheable, rule.may_have_allowance, rule.is_cacheable_if_plain, rule.may_have_allowance_if_plain)
    )
    assert rule.allowance(COMMAND, state) is None
    assert (rule.reversible, rule.at_start) == (None, None)
    assert not rule.may_restore(SERVER, "basic.deliver")
    assert not rule.continues(compiled(Nothing(name="r")))


class Counting(Rule, Stateful, frozen=True, tag="counting"):
    """Remembers a list for all sessions, and goes on with it if its `step` stays the same."""

    step: int = 1
    limit: int = 5

    def begin(self) -> list[int]:
        return [self.step]

    def continues(self, old: Rule) -> bool:
        return isinstance(old, Counting) and old.step == self.step


def test_what_a_rule_remembers_outlives_a_reload_if_it_continues() -> None:
    before = compiled(Counting(name="r"))
    after = compiled(Counting(name="r", limit=6), before)
    assert after.shared is before.shared
    assert after.continues(before)
    other = compiled(Counting(name="r", step=2), before)
    assert other.shared == [2]
    assert not other.continues(before)


def test_a_session_whose_rules_were_replaced_twice_does_not_continue_across_the_gap() -> None:
    before = compiled(Counting(name="r"))
    between = compiled(Counting(name="r", step=2), before)
    after = compiled(Counting(name="r"), between)
    assert after.shared is not before.shared
    assert not after.continues(before)
