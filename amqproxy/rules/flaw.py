"""What is wrong with rules that each key of them alone does not show."""

from __future__ import annotations

from collections.abc import Iterable

from amqproxy.amqp091.grammar import SENDERS
from amqproxy.rules.filters import compiled
from amqproxy.rules.match import HEARTBEAT
from amqproxy.rules.names import NAMES, Source
from amqproxy.rules.rule import Rule


def check(rules: Iterable[Rule]) -> None:
    """`ValueError` with the path to the first key that is wrong, and what is wrong with it."""
    names: dict[str, int] = {}
    for place, rule in enumerate(rules):
        first = names.setdefault(rule.name, place)
        if first != place:
            raise ValueError(f".rules[{place}].name: `{rule.name}` is the name of rules[{first}] too")
        try:
            _check_one(rule)
        except ValueError as error:
            raise ValueError(f".rules[{place}]{error}") from None


def _check_one(rule: Rule) -> None:
    if not rule.name:
        raise ValueError(".name: a rule needs one, to be counted and talked about")
    conditions = rule.match.conditions()
    if rule.when:
        try:
            conditions = (*conditions, compiled(rule.when).condition)
        except ValueError as error:
            raise ValueError(f".when: {error}") from None
    if rule.acts_at_start:
        reads = {path for each in conditions for path in each.reads if NAMES[path].source is not Source.CLIENT}
        reads -= {"time"}
        if rule.match.method is not None:
            reads.add("method")
        if reads:
            raise ValueError(
                f": it acts on whole connections, which have no {' or '.join(sorted(reads))}: "
                "match by what is known of the client"
            )
        return
    possible = rule.match.methods
    if not possible:
        raise ValueError(".match: no method has all that is asked for")
    if rule.methods is not None:
        possible &= rule.methods
        if not possible:
            raise ValueError(".match: this action can do nothing about any of the methods that are matched")
    sender = rule.match.sender
    if sender is not None and not any(name == HEARTBEAT or sender in SENDERS[name] for name in possible):
        raise ValueError(f".match.sender: the {sender} sends none of the methods that are matched")
