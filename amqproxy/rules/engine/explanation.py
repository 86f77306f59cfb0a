"""Explanations of rules, and of the rules that apply to a given command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any

import msgspec
from msgspec.structs import replace

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BY_NAME, ConnectionOpenOk
from amqproxy.amqp091.transitions import CLIENT, SENDERS, SERVER, Peer
from amqproxy.conversion.client_name import ALIASES
from amqproxy.rules.access.acl import AccessList, deciding_condition, parts_of
from amqproxy.rules.access.allow import Allow
from amqproxy.rules.access.refuse import Refuse
from amqproxy.rules.context import Client, CommandContext
from amqproxy.rules.engine.compiled_rule import CompiledRule, account
from amqproxy.rules.engine.describe import USUAL_WORDS, AnswerWords, describe_verdict
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.matching.condition import Condition
from amqproxy.rules.matching.match import Match
from amqproxy.rules.matching.operations import operations
from amqproxy.rules.matching.patterns import Patterns
from amqproxy.rules.rewriting.rewrite import Rewrite
from amqproxy.rules.rule import Rule
from amqproxy.rules.suggestions import did_you_mean
from amqproxy.rules.verdict import Stage

WAITS_FOR = {
    Stage.NOTHING: "nothing",
    Stage.METHOD: "the method alone",
    Stage.HEADER: "the method and the message's header",
    Stage.BODY: "the whole message",
}

_CLIENT_FIELDS = {"user": "user", "vhost": "vhost", "client.address": "address", "tls.sni": "sni"}
_CLIENT_FIELDS |= {"tls.subject": "tls_subject", "listener": "listener", "upstream": "upstream"}
CONNECTION_NAME = "connection_name"
_METHOD_FIELDS = ("exchange", "queue", "routing_key", "consumer_tag", "destination")
_ANY_NAME = "any-other-name"
"""The value of unknown names in a second evaluation: what differs then depends on them."""

_BY_CERTAINTY = (True, None, False)


class ExplainedCommand:
    """A partly known client and command to explain."""

    def __init__(
        self,
        given: Mapping[str, str],
        method: str | None = None,
        sender: Peer | None = None,
        *,
        shown: str | None = None,
        constants: Mapping[str, Any] = {},
        words: AnswerWords = USUAL_WORDS,
        others: Iterable[str] = (),
    ) -> None:
        """`given` maps attribute names to values; raise `ValueError` if they do not go together.

        If another protocol's method is seen as `method`, `shown` is its name, `constants` are the values of fields that
        it lacks, and `words` describe its answers. `others` are further names to suggest for a misspelt one.
        """
        self.shown_method = shown or method
        self._words = words
        if method is not None and method not in BY_NAME:
            raise ValueError(f"there is no method `{method}`{did_you_mean(method, [*BY_NAME, *others])}")
        self.method = method
        self.sender = sender
        if method is not None and sender is None:
            self.sender = CLIENT if CLIENT in SENDERS[method] else SERVER
        fields = {path: value for path, value in given.items() if path in _METHOD_FIELDS}
        if fields and method is None:
            raise ValueError(f"{next(iter(fields))} depends on the method: name one too")
        self.known = {path for path in given if path not in fields}
        named: dict[str, Any] = {}
        if CONNECTION_NAME in given:
            self.known |= set(ALIASES)
            named = {"properties": {CONNECTION_NAME: given[CONNECTION_NAME]}}
        asked: Any = ConnectionOpenOk()
        if method is not None:
            cls = BY_NAME[method]
            for path in fields:
                if _field(path, cls.__struct_fields__) is None:
                    raise ValueError(f"{self.shown_method} has no {path}")
            values = {_field(path, cls.__struct_fields__) or path: value for path, value in fields.items()}
            asked = cls(**{**constants, **values})
            self.known |= {"method", "sender", *fields}
        about_client: dict[str, Any] = {
            _CLIENT_FIELDS[path]: value for path, value in given.items() if path in _CLIENT_FIELDS
        }
        self.context = CommandContext(
            sender=self.sender or CLIENT, command=Command(1, asked), client=Client(**about_client, **named)
        )
        self.is_empty = not given and method is None and sender is None

    def answer(self, cases: Sequence[CompiledRule]) -> tuple[bool | None, str, CompiledRule]:
        """Return whether a rule with these parts holds (`None`: it depends), the reason, and the part that says so.

        The reason is that of a part about the method, if there is one: a line of an access list has a part for
        publishes and another for everything else.
        """
        about = [case for case in cases if self._is_about(case)]
        answers = [(*self._answer(case), case) for case in about or cases]
        return min(answers, key=lambda each: _BY_CERTAINTY.index(each[0]))

    def verdict(self, case: CompiledRule) -> tuple[bool, str]:
        """Return whether a rule that holds stops the command, and a description of its effect."""
        try:
            verdict = case.rule.decide(self.context, case.begin_session())
        except Exception as error:  # noqa: BLE001 - a rule may raise anything, and then refuses the command
            return True, f"refused with 541: {account(case.rule, error)}"
        words = describe_verdict(verdict, self.context.command, words=self._words)
        return verdict.command is None or verdict.close is not None, "; ".join(words)

    def begun(self) -> ExplainedCommand:
        """Return a copy that `follow` may change."""
        begun = copy(self)
        begun.known = set(self.known)
        return begun

    def follow(self, case: CompiledRule, *, does_hold: bool) -> None:
        """Continue with the command as a rule that holds, or may hold, leaves it for the rules after it.

        A changed name is known if the rule holds and sets it to the same whatever the unknown names are.
        """
        before = self.context.command.method
        fields = {path: field for path in _METHOD_FIELDS if (field := _field(path, before.__struct_fields__))}
        if case.rule.makes_unchecked_values:  # Python, which may set any name
            self.known -= set(fields)
        if not isinstance(case.rule, Rewrite):
            return
        others = {field: _ANY_NAME for path, field in fields.items() if path not in self.known}
        clients = {field: _ANY_NAME for path, field in _CLIENT_FIELDS.items() if path not in self.known}
        another = replace(
            self.context,
            command=Command(1, replace(before, **others)),
            client=replace(self.context.client, **clients),
        )
        after, other = _rewritten(case, self.context), _rewritten(case, another)
        for path, field in fields.items():
            results = {getattr(after, field), getattr(other, field)}
            if does_hold and len(results) == 1:
                self.known.add(path)
            elif does_hold or results != {getattr(before, field)}:
                self.known.discard(path)
        if does_hold:
            self.context = replace(self.context, command=Command(1, after))

    def _is_about(self, case: CompiledRule) -> bool:
        if case.at_start:
            return self.method is None
        return any(case.may_ask_about(sender, method) for sender in self._senders() for method in self._methods())

    def _answer(self, case: CompiledRule) -> tuple[bool | None, str]:
        if not self._is_about(case):
            if case.at_start:
                return False, "it is about connections"
            return False, f"it is not about {self.shown_method or f'commands of the {self.sender}'}"
        deciding = deciding_condition(case.rule)
        if deciding is not None and self.method is not None and not operations(self.context.command):
            return False, "this needs no right"
        open_names: set[str] = set()
        for each in (*case.client_conditions, *case.method_conditions, *case.other_conditions):
            if not each.reads or not each.reads <= self.known:
                open_names |= each.reads - self.known or {"chance"}
            elif not _holds(each, self.context):
                if each is deciding and open_names:
                    continue  # these names also decide which line applies
                if each is deciding:
                    return False, "another line decides"
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
    except ValueError:  # a failing expression refuses the command
        return True


def _rewritten(case: CompiledRule, context: CommandContext) -> Any:
    """Return the method as a rule changes it; as it was if the rule fails."""
    try:
        command = case.rule.decide(context, case.begin_session()).command
    except Exception:  # noqa: BLE001 - a rule may raise anything, and then refuses the command
        command = None
    return (command or context.command).method


def explained(rules: Iterable[Rule], inquiry: ExplainedCommand) -> Iterator[str]:
    """Yield a few lines about each rule, in evaluation order, and the verdict on the command."""
    ruleset = RuleSet(rules)
    inquiry = inquiry.begun()
    parts: dict[str, list[CompiledRule]] = {}
    for case in ruleset.cases:
        parts.setdefault(case.rule.name, []).append(case)
    stage = Stage.NOTHING
    summary = _VerdictSummary(inquiry)
    for number, rule in enumerate(ruleset.rules, 1):
        yield f"{number}. {rule.__struct_config__.tag} `{rule.name}`{_mode(rule)}"
        lines = [line.text for line in rule.parsed] if isinstance(rule, AccessList) else []
        names = list(dict.fromkeys([part.name for part in parts_of(rule)]))
        yield from _of_a_list(rule) if lines else _of_one(parts[rule.name][0])
        has_held = may_hold = ""
        for place, name in enumerate(names):
            if lines:
                yield f"   {name.rpartition(', ')[2]}: {lines[place]}"
            if inquiry.is_empty:
                continue
            indent = "      " if lines else "   "
            if summary.ended_by or has_held:
                yield f"{indent}here:  is not asked, since `{summary.ended_by or has_held}` holds"
                continue
            does_hold, why, case = inquiry.answer(parts[name])
            if does_hold and may_hold:
                does_hold, why = None, f"depends on `{may_hold}`"
            answer = {True: "holds", False: "does not hold", None: "may hold"}[does_hold]
            yield f"{indent}here:  {answer}{f': {why}' if why else ''}"
            if does_hold is False:
                continue
            stage = max([stage, *[case.stage for case in parts[name]]])
            if lines and does_hold:
                has_held = name
            elif lines:
                may_hold = may_hold or name
            summary.add(name, case, why, does_hold=does_hold is True)
    if inquiry.method is not None:
        yield f"To evaluate this {inquiry.shown_method}, amqproxy waits for {WAITS_FOR[stage]}."
        yield str(summary)


class _VerdictSummary:
    """Combined effect on a command of the rules that hold and the rules that may hold."""

    def __init__(self, inquiry: ExplainedCommand) -> None:
        self.ended_by = ""
        """Name of the rule after which evaluation ends."""
        self._inquiry = inquiry
        self._end = "passes"
        self._done: list[str] = []
        self._undecided: list[str] = []
        self._open: list[str] = []
        self._allowing: list[str] = []
        """Allow rules that may hold, and would end evaluation."""

    def add(self, name: str, case: CompiledRule, why: str, *, does_hold: bool) -> None:
        """Count a rule, or a line of an access list, that holds or may hold."""
        if case.is_shadow:
            return
        self._count(name, case, why, does_hold=does_hold)
        if self._inquiry.method is not None:
            self._inquiry.follow(case, does_hold=does_hold)

    def _count(self, name: str, case: CompiledRule, why: str, *, does_hold: bool) -> None:
        is_allow = isinstance(case.rule, Allow)
        if is_allow and not does_hold:
            if case.last_place < 0:
                self._allowing.append(f"`{name}` (allow) holds: that {why}")
        elif self._inquiry.method is None:
            if does_hold and isinstance(case.rule, Allow | Refuse) and case.last_place < 0:
                self.ended_by = name
        elif not does_hold:
            self._open.append(f"`{name}` ({_action(case.rule)}) holds: that {why}")
        elif is_allow:
            if case.last_place < 0:
                self.ended_by, self._end = name, f"passes, as `{name}` allows it"
        elif not case.is_cacheable and not isinstance(case.rule, Refuse):
            self._undecided.append(f"`{name}` ({_action(case.rule)})")
            self._count_allowing()
        else:
            is_end, words = self._inquiry.verdict(case)
            if is_end:
                self._count_allowing()
                self.ended_by, self._end = name, f"is stopped by `{name}`: {words}"
            elif words:
                self._done.append(f"`{name}`: {words}")

    def _count_allowing(self) -> None:
        self._open += self._allowing
        self._allowing = []

    def __str__(self) -> str:
        inquiry = self._inquiry
        shown = inquiry.shown_method
        if shown != inquiry.method:
            shown = f"{shown} (to rules, {inquiry.method})"
        end = self._end
        if self._undecided:
            end += f", subject to {' and '.join(self._undecided)}"
        if self._open:
            end += f", unless {', or '.join(self._open)}"
        if self._done:
            end += f"; {'; '.join(self._done)}"
        return f"Verdict: this {shown} {end}."


def _action(rule: Rule) -> str:
    return "refuse" if isinstance(rule, Refuse) else str(rule.__struct_config__.tag)


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
"""Number of methods that are named."""


def _conditions(match: Match, when: str) -> list[str]:
    """Describe the conditions besides the method."""
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
        words.append(" ".join(when.split()))
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
    """Describe the action and its keys."""
    common = set(Rule.__struct_fields__)
    keys = [(name, field, value) for name, field, value in _said(rule) if field not in common]
    words = [f"{name} = {_written(value)}" for name, _, value in keys]
    return _summary(rule) + (f" ({', '.join(words)})" if words else "")


def _said(part: msgspec.Struct) -> Iterator[tuple[str, str, Any]]:
    """Yield the key, field and value of each setting that differs from its default."""
    for field in msgspec.structs.fields(type(part)):
        value = getattr(part, field.name)
        default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
        if value != default:
            yield field.encode_name, field.name, value


def _written(value: Any) -> str:
    """Format a value as in the configuration."""
    if isinstance(value, msgspec.Struct):
        tag = type(value).__struct_config__.tag
        kind = [f"{type(value).__struct_config__.tag_field} = {tag!r}"] if tag else []
        return "{" + ", ".join(kind + [f"{name} = {_written(each)}" for name, _, each in _said(value)]) + "}"
    return str(msgspec.to_builtins(value)) if not isinstance(value, str) else repr(value)
