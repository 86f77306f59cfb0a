"""The last word for what may pass as it is."""

from __future__ import annotations

from amqproxy.rules.context import CommandContext
from amqproxy.rules.matching.match import MatchedPlaces
from amqproxy.rules.rule import Cacheable, Rule, RuleState
from amqproxy.rules.verdict import Verdict


class Allow(Rule, Cacheable, frozen=True, tag="allow"):
    """Let it pass; no later rule is asked.

    The match has to hold of all that the command names.
    """

    places = MatchedPlaces.ALL
    changes_method = False

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        return Verdict(command=context.command, is_final=True)
