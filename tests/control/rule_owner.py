"""The owner of rules that tests check, set and switch, and a rule for it."""

from __future__ import annotations

from amqproxy.rules.engine.evaluator import RuleSet
from tests.proxy.stage import Stage
from tests.rules.scene import rule

LOG = {"name": "look", "action": "log", "text": "seen", "match": {"method": "basic.publish"}}


class Owner:
    """A proxy, as far as rules go."""

    def __init__(self, *rules: str, stage: Stage | None = None) -> None:
        self.rules = RuleSet([rule(each) for each in rules])
        self.sessions = {} if stage is None else {1: stage.session}

    def apply_rules(self, rules: RuleSet) -> None:
        self.rules = rules
        for session in self.sessions.values():
            session.apply_rules(rules)
