"""Errors in rules that no single key shows by itself."""

from __future__ import annotations

from collections.abc import Iterable

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BY_NAME, Method
from amqproxy.amqp091.transitions import SENDERS
from amqproxy.amqp091.wire import Table
from amqproxy.rules.context import Client, CommandContext
from amqproxy.rules.matching.attributes import NAMES, AttributeSource
from amqproxy.rules.matching.filters import compiled
from amqproxy.rules.matching.match import HEARTBEAT
from amqproxy.rules.rule import ImpairsStream, Rule, initial_state
from amqproxy.rules.sendable import Unsendable, check_verdict


def check(rules: Iterable[Rule]) -> None:
    """Raise `ValueError` with the path of the first wrong key and the error."""
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
        raise ValueError(".name: a rule needs a name, for counters and logs")
    conditions = rule.conditions()
    if rule.when:
        try:
            conditions = (*conditions, compiled(rule.when).condition)
        except ValueError as error:
            raise ValueError(f".when: {error}") from None
    if isinstance(rule, ImpairsStream) and rule.acts_at_start:
        reads = {path for each in conditions for path in each.reads if NAMES[path].source is not AttributeSource.CLIENT}
        reads -= {"time"}
        if rule.match.method is not None:
            reads.add("method")
        if reads:
            raise ValueError(
                f": it acts on whole connections, which have no {' or '.join(sorted(reads))}: "
                "match by what is known of the client"
            )
        return
    possible = rule.matched
    if not possible:
        raise ValueError(".match: no method has all that is asked for")
    if rule.methods is not None:
        possible &= rule.methods
        if not possible:
            raise ValueError(".match: this action can do nothing about any of the methods that are matched")
    sender = rule.match.sender
    if sender is not None and not any(name == HEARTBEAT or sender in SENDERS[name] for name in possible):
        raise ValueError(f".match.sender: the {sender} sends none of the methods that are matched")
    if not rule.makes_unchecked_values:  # Python of others may need real commands, and have effects
        _check_what_is_sent(rule, possible)


def _check_what_is_sent(rule: Rule, methods: Iterable[str]) -> None:
    """Call `decide` with a specimen of each method, and try to encode the result."""
    for name in sorted(set(methods) & BY_NAME.keys()):
        for sender in SENDERS[name]:
            command = Command(0 if name.startswith("connection.") else 1, _specimen(BY_NAME[name]))
            context = CommandContext(sender=sender, command=command, client=Client())
            try:
                verdict = rule.decide(context, initial_state(rule))
            except Exception:  # noqa: BLE001 - it may need more than a specimen has
                continue
            try:
                check_verdict(verdict, command)
            except Unsendable as error:
                raise ValueError(f": what it makes of a {name} cannot be sent: {error}") from None


_SPECIMENS = {"b": False, "s": "", "u": "", "S": b"", "F": Table()}
"""A value of each wire type; 1 for all numbers."""


def _specimen(method: type[Method]) -> Method:
    return method(*[_SPECIMENS.get(letter, 1) for letter in method.layout.decode()])
