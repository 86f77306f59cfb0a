"""The last word for what may pass as it is."""

from __future__ import annotations

from amqproxy.rules.context import Seen
from amqproxy.rules.matching.match import Places
from amqproxy.rules.rule import Memory, Rule
from amqproxy.rules.verdict import Verdict


class Allow(Rule, frozen=True, tag="allow"):
    """Let it pass; no later rule is asked.

    The match has to hold of all that the command names.
    """

    places = Places.ALL
    is_constant = True
    renames = False

    def decide(self, seen: Seen, memory: Memory) -> Verdict:
        return Verdict(command=seen.command, is_final=True)
