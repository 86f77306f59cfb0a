"""Describes what rules do, and which of them would apply to a given command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BY_NAME, ConnectionOpenOk
from amqproxy.amqp091.transitions import CLIENT, SENDERS, SERVER, Peer
from amqproxy.rules.access.acl import AccessList, parts_of
from amqproxy.rules.access.allow import Allow
from amqproxy.rules.access.refuse import Refuse
from amqproxy.rules.context import Client, CommandContext
from amqproxy.rules.engine.compiled_rule import CompiledRule
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.matching.condition import Condition
from amqproxy.rules.matching.match import Match
from amqproxy.rules.matching.patterns import Patterns
from amqproxy.rules.rule import Rule
from amqproxy.rules.verdict import Stage
from amqproxy.suggestions import did_you_mean

WAITS_FOR = {
    Stage.NOTHING: "nothing",
    Stage.METHOD: "the method alone",
    Stage.HEADER: "the method and the message's header",
    Stage.BODY: "the whole message",
}

_CLIENT_FIELDS = {"user": "user", "vhost": "vhost", "client.address": "address", "tls.sni": "sni"}
_CLIENT_FIELDS |= {"tls.subject": "tls_subject", "listener": "listener", "upstream": "upstream"}
_METHOD_FIELDS = ("exchange", "queue", "routing_key", "consumer_tag", "destination")


class ExplainedCommand:
    """A client and a command that are asked about, of which only some is known."""

    def __init__(self, given: Mapping[str, str], method: str | None = None, sender: Peer | None = None) -> None:
        """`given` are names and their values; `ValueError` when they do not go together."""
        if method is not None and method not in BY_NAME:
            raise ValueError(f"there is no method `{method}`{did_you_mean(method, BY_NAME)}")
        self.method = method
        self.sender = sender
        if method is not None and sender is None:
            self.sender = CLIENT if CLIENT in SENDERS[method] else SERVER
        fields = {path: value for path, value in given.items() if path in _METHOD_FIELDS}
        if fields and method is None:
            raise ValueError(f"to know what {next(iter(fields))} is meant, name a method too")
        self.known = {path for path in given if path not in fields}
        asked: Any = ConnectionOpenOk()
        if method is not None:
            cls = BY_NAME[method]
            for path in fields:
                if _field(path, cls.__struct_fields__) is None:
                    raise ValueError(f"{method} has no {path}")
            asked = cls(**{_field(path, cls.__struct_fields__) or path: value for path, value in fields.items()})
            self.known |= {"method", "sender", *fields}
        about_client: dict[str, Any] = {
            _CLIENT_FIELDS[path]: value for path, value in given.items() if path in _CLIENT_FIELDS
        }
        self.context = CommandContext(
            sender=self.sender or CLIENT, command=Command(1, asked), client=Client(**about_client)
        )
        self.is_empty = not given and method is None and sender is None

    def answer(self, cases: Iterable[CompiledRule]) -> tuple[bool | None, str]:
        """Does a rule of these parts hold: yes, no, or None: it depends; and on what, or why not."""
        answers = [self._answer(case) for case in cases]
        for wanted in (True, None):
            for does_hold, why in answers:
                if does_hold is wanted:
                    return does_hold, why
        return answers[-1]

    def _answer(self, case: CompiledRule) -> tuple[bool | None, str]:
        if case.at_start:
            if self.method is not None:
                return False, "it is about connections"
        elif not any(case.may_ask_about(sender, method) for sender in self._senders() for method in self._methods()):
            return False, f"it is not about {self.method or f'commands of the {self.sender}'}"
        open_names: set[str] = set()
        for each in (*case.client_conditions, *case.method_conditions, *case.other_conditions):
            if not each.reads or not each.reads <= self.known:
                open_names |= each.reads - self.known or {"chance"}
            elif not _holds(each, self.context):
                return False, f"{' and '.join(sorted(each.reads))} is another"
        if self.method is None and case.at_start is None:
            open_names.add("method")
        if open_names:
            return None, f"depends on {', '.join(sorted(open_names))}"
        return True, ""

    def _methods(self) -> Iterable[str]:
        return BY_NAME if self.method is None else [self.method]

    def _senders(self) -> Iterable[Peer]:
        return [self.sender] if self.sender else list(Peer)


def _field(path: str, fields: Iterable[str]) -> str | None:
    if path in fields:
        return path
    return "source" if path == "exchange" and "source" in fields else None


def _holds(condition: Condition, context: CommandContext) -> bool:
    try:
        return condition.holds(context)
    except ValueError:  # an expression that fails refuses the command
        return True


def explained(rules: Iterable[Rule], inquiry: ExplainedCommand) -> Iterator[str]:
    """The rules in the order in which they are asked, a few lines each; and, of a command, what is waited for."""
    ruleset = RuleSet(rules)
    parts: dict[str, list[CompiledRule]] = {}
    for case in ruleset.cases:
        parts.setdefault(case.rule.name, []).append(case)
    stage = Stage.NOTHING
    ended_by = ""
    for number, rule in enumerate(ruleset.rules, 1):
        yield f"{number}. {rule.__struct_config__.tag} `{rule.name}`{_mode(rule)}"
        lines = [line.text for line in rule.parsed] if isinstance(rule, AccessList) else []
        names = list(dict.fromkeys([part.name for part in parts_of(rule)]))
        yield from _of_a_list(rule) if lines else _of_one(parts[rule.name][0])
        has_held = ""
        for place, name in enumerate(names):
            if lines:
                yield f"   {name.rpartition(', ')[2]}: {lines[place]}"
            if inquiry.is_empty:
                continue
            indent = "      " if lines else "   "
            if ended_by or has_held:
                yield f"{indent}here:  is not asked, since `{ended_by or has_held}` holds"
                continue
            does_hold, why = inquiry.answer(parts[name])
            answer = {True: "holds", False: "does not hold", None: "may hold"}[does_hold]
            yield f"{indent}here:  {answer}{f': {why}' if why else ''}"
            if does_hold is not False:
                stage = max([stage, *[case.stage for case in parts[name]]])
            if does_hold and lines:
                has_held = name
            if does_hold and _is_last(parts[name][0]):
                ended_by = name
    if inquiry.method is not None:
        yield f"To evaluate this {inquiry.method}, amqproxy waits for {WAITS_FOR[stage]}."


def _is_last(case: CompiledRule) -> bool:
    """Is it final, where it matches?"""
    if case.is_shadow or not case.is_cacheable:
        return False
    return isinstance(case.rule, Refuse) or (isinstance(case.rule, Allow) and case.last_place < 0)


def _mode(rule: Rule) -> str:
    return " (in shadow: it counts, and changes nothing)" if rule.mode == "shadow" else ""


def _of_a_list(rule: Rule) -> Iterator[str]:
    conditions = _conditions(rule.match, rule.when)
    if conditions:
        yield f"   about: commands where {', '.join(conditions)}"
    yield f"   does:  {_summary(rule)}"


def _of_one(case: CompiledRule) -> Iterator[str]:
    conditions = _conditions(case.rule.match, case.rule.when)
    what = "connections" if case.at_start else _methods(case)
    yield f"   about: {what} where {', '.join(conditions)}" if conditions else f"   about: {what}"
    yield f"   does:  {_does(case.rule)}"
    yield f"   needs: {WAITS_FOR[case.stage]}"


def _methods(case: CompiledRule) -> str:
    names = sorted(case.methods)
    sender = f" from the {case.rule.match.sender}" if case.rule.match.sender else ""
    if set(names) >= set(BY_NAME):
        return f"every command{sender}"
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    return f"{shown}{sender}"


_SHOWN = 6
"""How many methods are named."""


def _conditions(match: Match, when: str) -> list[str]:
    """What must hold besides the method, in words."""
    words = []
    for key in match.__struct_fields__:
        value = getattr(match, key)
        if key in ("method", "sender") or value is None or value == {}:
            continue
        if key == "size":
            words.append(_size(value.min, value.max))
        elif key == "time":
            words.append(f"the time is from {value.start} to {value.to} ({value.offset}) on {', '.join(value.days)}")
        elif key == "sample":
            words.append(f"chance takes it ({value:g} %)")
        elif isinstance(value, Mapping):
            words += [f"{key} {name} {_wanted(wanted)}" for name, wanted in value.items()]
        else:
            words.append(f"{key} {_patterns(value)}")
    if when:
        words.append(f"{' '.join(when.split())}")
    return words


def _size(least: int | str, most: int | str | None) -> str:
    parts = [f"at least {least}"] if least else []
    parts += [f"at most {most}"] if most is not None else []
    return f"size is {' and '.join(parts)}" if parts else "there is a message"


def _wanted(wanted: Any) -> str:
    if isinstance(wanted, bool):
        return "is there" if wanted else "is not there"
    return f"is {wanted}" if isinstance(wanted, (int, float)) else _patterns(wanted)


def _patterns(patterns: Patterns) -> str:
    several = (patterns,) if isinstance(patterns, str) else patterns
    wanted = " or ".join([f"`{each}`" for each in several if not each.startswith("!")])
    unwanted = " or ".join([f"`{each[1:]}`" for each in several if each.startswith("!")])
    words = [f"is {wanted}"] if wanted else []
    return " and ".join(words + ([f"is not {unwanted}"] if unwanted else []))


def _summary(rule: Rule) -> str:
    return (type(rule).__doc__ or "").split("\n")[0]


def _does(rule: Rule) -> str:
    """Its action, and the action's keys."""
    common = set(Rule.__struct_fields__)
    keys = [(name, field, value) for name, field, value in _said(rule) if field not in common]
    words = [f"{name} = {_written(value)}" for name, _, value in keys]
    return _summary(rule) + (f" ({', '.join(words)})" if words else "")


def _said(part: msgspec.Struct) -> Iterator[tuple[str, str, Any]]:
    """The key, the field and the value of everything in a part of the config that is not a default."""
    for field in msgspec.structs.fields(type(part)):
        value = getattr(part, field.name)
        default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
        if value != default:
            yield field.encode_name, field.name, value


def _written(value: Any) -> str:
    """A value as in the config."""
    if isinstance(value, msgspec.Struct):
        tag = type(value).__struct_config__.tag
        kind = [f"{type(value).__struct_config__.tag_field} = {tag!r}"] if tag else []
        return "{" + ", ".join(kind + [f"{name} = {_written(each)}" for name, _, each in _said(value)]) + "}"
    return str(msgspec.to_builtins(value)) if not isinstance(value, str) else repr(value)
