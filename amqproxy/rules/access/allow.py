"""The `allow` action: passes a command without evaluating later rules."""

from __future__ import annotations

from amqproxy.rules.context import CommandContext
from amqproxy.rules.matching.match import MatchedPlaces
from amqproxy.rules.rule import Cacheable, Rule, RuleState
from amqproxy.rules.verdict import Verdict


class Allow(Rule, Cacheable, frozen=True, tag="allow"):
    """Pass the command and evaluate no later rule.

    The match must hold for every name in the command.
    """

    places = MatchedPlaces.ALL
    changes_method = False

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        return Verdict(command=context.command, is_final=True)
