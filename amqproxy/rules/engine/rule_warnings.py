"""Warnings of `rules check`: rules that can be bypassed, that lock every client out, or that are never evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amqproxy.rules.access.access_list import Line
from amqproxy.rules.access.acl import AccessList
from amqproxy.rules.access.allow import Allow
from amqproxy.rules.access.refuse import Refuse
from amqproxy.rules.matching.filters import compiled
from amqproxy.rules.matching.match import Match
from amqproxy.rules.matching.operations import METHODS
from amqproxy.rules.rule import Rule

_SINGLE = {"exchange": "exchanges", "queue": "queues", "routing_key": "routing_keys"}
"""Expression names of a method's own objects, and of all objects that it affects."""

_WAYS = {
    "exchange": (
        "basic.publish",
        METHODS["publish"],
        "bring messages there, too",
    ),
    "queue": ("basic.consume", frozenset({"basic.get"}), "takes messages from it, too"),
}
"""For a rule about one way to reach an object: the other ways."""


def find_warnings(rules: Iterable[Rule]) -> Iterator[str]:
    """Yield a line for each doubtful rule, with its name."""
    ended_by = ""
    for rule in rules:
        if rule.mode == "shadow":
            continue
        if ended_by:
            yield f"rule '{rule.name}' is never evaluated: '{ended_by}' is about every command, and ends the rules"
            continue
        for found in _of_rule(rule):
            yield f"rule '{rule.name}': {found}"
        if isinstance(rule, Allow) and _is_about_all(rule):
            ended_by = rule.name


def _of_rule(rule: Rule) -> Iterator[str]:
    if isinstance(rule, AccessList):
        yield from _of_list(rule)
    elif isinstance(rule, Refuse):
        yield from _of_refusal(rule)


# --- access lists


def _of_list(rule: AccessList) -> Iterator[str]:
    lines = rule.parsed
    for place, line in enumerate(lines):
        if not line.is_otherwise:
            for earlier in lines[:place]:
                if _covers(earlier, line):
                    yield f"line {line.number} is never evaluated: line {earlier.number} is about all that it is about"
                    break
    first = next((line for line in lines if "connect" in line.acts and (line.does_allow or _is_for_all(line))), None)
    if first is not None and not first.does_allow and _is_about_all_clients(rule):
        yield f"line {first.number} locks all clients out: no line before it allows any to connect"


def _covers(earlier: Line, later: Line) -> bool:
    """Whether the earlier line decides about everything that the later line is about."""
    if not later.acts <= earlier.acts:
        return False
    return all(later.who.get(key) == patterns for key, patterns in earlier.who.items()) and all(
        later.objects.get(key) == patterns for key, patterns in earlier.objects.items()
    )


def _is_for_all(line: Line) -> bool:
    return not line.who and not line.objects


# --- rules that refuse


def _of_refusal(rule: Refuse) -> Iterator[str]:
    match = rule.match
    if "connection.open" in rule.matched and _is_about_all_clients(rule) and not _reads(rule):
        yield "it locks all clients out: it refuses each connection.open; name the methods that it is about"
    for key, (way, others, what) in _WAYS.items():
        missed = sorted(others - rule.matched)
        if match.method is not None and getattr(match, key) is not None and way in rule.matched and missed:
            yield f"it refuses {way}, but {' and '.join(missed)} {what}; leave `method` out, or use an acl"
    for name in sorted(_reads(rule) & _SINGLE.keys()):
        yield f"`{name}` in its `when` is the method's own; `{_SINGLE[name]}` are all that have an effect"


def _reads(rule: Rule) -> frozenset[str]:
    """Return the attribute names in the rule's expression."""
    return compiled(rule.when).names if rule.when else frozenset()


def _is_about_all_clients(rule: Rule) -> bool:
    """Whether the match holds for all clients."""
    empty = Match()
    return not rule.when and all(
        getattr(rule.match, key) == getattr(empty, key) for key in rule.match.__struct_fields__ if key != "method"
    )


def _is_about_all(rule: Rule) -> bool:
    return rule.match.method is None and _is_about_all_clients(rule)
